// What OpenMPI keeps in /dev/shm: a job that is killed leaves none of it behind, and one that ends
// says nothing about it.
#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

/// Starts a job of two ranks, lists the names of its segments as /proc has them, and does `then`
/// with mpirun's `$job`. Prints how many names there were, how many are left, and how many ranks.
Finished job_and_then(const std::string& then, int steps) {
    const TempDir dir;
    const std::string job = launch_command(2, "comm-test --sleep 0.1 --steps " + std::to_string(steps), 60),
                      out = dir.path("out");
    return run("(" + job + ") >" + out + " 2>" + dir.path("err") + " & shell=$!" + R"(
        for i in {1..300}; do grep -q 'step: 3' )" +
               out + R"( && break; sleep 0.1; done
        descendants() { for child in $(pgrep -P $1); do echo $child; descendants $child; done; }
        for pid in $(descendants $shell); do
            case $(cat /proc/$pid/comm) in mpirun | orterun | prterun) job=$pid ;; convoy) ranks="$ranks $pid" ;; esac
        done
        names=$(for pid in $ranks; do grep -ohE '/dev/shm/(vader|sm)_segment[^ ]*' /proc/$pid/maps; done | sort -u)
        )" + then +
               R"(
        wait $shell
        for i in {1..100}; do kill -0 $ranks 2>/dev/null || break; sleep 0.1; done
        echo $(wc -w <<<"$names") $(ls $names 2>/dev/null | wc -l) $(wc -w <<<"$ranks")
        cat )" +
               dir.path("err") + " >&2");
}

TEST(Segments, AJobWhoseLauncherIsKilledLeavesNone) {
    const Finished f = job_and_then("kill -9 $job", 300);
    EXPECT_EQ(f.out, "2 0 2\n") << f.err;
}

TEST(Segments, AJobThatEndsLeavesNoneAndIsSilent) {
    const Finished f = job_and_then("", 10);
    EXPECT_EQ(f.out, "2 0 2\n") << f.err;
    EXPECT_EQ(f.err.find("system call"), std::string::npos) << f.err;
}

}  // namespace
}  // namespace convoy::test
