// OpenMPI's files in /dev/shm: other users cannot access them, a killed job leaves none behind, and
// a job that ends prints nothing about them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "comm/segments.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

/// Starts a job of two ranks, lists the names of its segments from /proc, and runs `then` with
/// mpirun's `$job`. Prints four numbers: names before, names and full private folders after, ranks,
/// and private folders before. Prints "-" after these if a private folder is left, though empty.
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
        names=$(for pid in $ranks; do grep -ohE '/dev/shm/[^ ]*(vader|sm)_segment[^ ]*' /proc/$pid/maps; done | sort -u)
        )" + then +
               R"(
        wait $shell
        for i in {1..100}; do kill -0 $ranks 2>/dev/null || break; sleep 0.1; done
        folders=$(for name in $names; do dirname $name; done | sort -u | grep /dev/shm/convoy-)
        left=$(ls $names 2>/dev/null | wc -l)
        [ -z "$folders" ] || left=$((left + $(find $folders -type f 2>/dev/null | wc -l)))
        echo $(wc -w <<<"$names") $left $(wc -w <<<"$ranks") $(wc -w <<<"$folders") \
            $(ls -d $folders 2>/dev/null | sed 's/.*/-/' | uniq)
        cat )" +
               dir.path("err") + " >&2");
}

constexpr const char* settings[] = {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory",
                                    "OMPI_MCA_osc_sm_backing_directory", "OMPI_COMM_WORLD_RANK"};

/// Runs `body` in a separate process, whose environment has none of the settings above. Returns
/// true if nothing in it failed.
bool in_a_launched_process(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
        for (const char* setting : settings) unsetenv(setting);
        setenv("OMPI_COMM_WORLD_RANK", "0", 1);
        body();
        _exit(testing::Test::HasFailure());
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

TEST(Segments, AreMadeWhereOnlyThisUserMayEnter) {
    EXPECT_TRUE(in_a_launched_process([] {
        std::string path;
        {
            SegmentFolder folder;
            path = folder.path();
            for (int i = 0; i < 3; ++i) EXPECT_EQ(std::getenv(settings[i]), path);
            EXPECT_TRUE(path.starts_with("/dev/shm/convoy-")) << path;
            struct stat found{};
            ASSERT_EQ(lstat(path.c_str(), &found), 0);
            EXPECT_EQ(found.st_mode & 07777, 0700u);
            EXPECT_EQ(found.st_uid, geteuid());
            for (const char* setting : settings) unsetenv(setting);
            setenv("OMPI_COMM_WORLD_RANK", "0", 1);
            const SegmentFolder another;
            EXPECT_NE(another.path(), path);
            EXPECT_TRUE(std::filesystem::exists(path)) << "a later start leaves it alone: it is in use";
        }
        EXPECT_FALSE(std::filesystem::exists(path));
    }));
}

TEST(Segments, OfAKilledProcessAreRemovedByTheNextStart) {
    std::string empty = "/dev/shm/convoy-XXXXXX", full = empty, theirs = empty;
    for (std::string* path : {&empty, &full, &theirs}) ASSERT_NE(mkdtemp(path->data()), nullptr);
    write_file(full + "/file", "kept");
    EXPECT_EQ(chown(theirs.c_str(), 12345, 12345) == 0, geteuid() == 0);
    EXPECT_TRUE(in_a_launched_process([] { const SegmentFolder folder; }));
    EXPECT_FALSE(std::filesystem::exists(empty));
    EXPECT_TRUE(std::filesystem::exists(full + "/file"));
    EXPECT_EQ(std::filesystem::exists(theirs), geteuid() == 0) << "only root can give it to another user";
    for (const std::string& path : {full, theirs}) std::filesystem::remove_all(path);
}

TEST(Segments, AreMadeWhereTheUserSaid) {
    EXPECT_TRUE(in_a_launched_process([] {
        setenv(settings[2], "/dev/shm", 1);
        SegmentFolder folder;
        EXPECT_EQ(folder.path(), "");
        EXPECT_EQ(std::getenv(settings[0]), nullptr);
    }));
}

// OpenMPI would use a file of another user there, who can fill /dev/shm to the last inode.
TEST(Segments, AFullPlaceEndsTheJob) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a /dev/shm";
    if (run("unshare --mount true").code != 0) GTEST_SKIP() << "needs the right to mount";
    const TempDir dir;
    write_file(dir.path("job"), launch_command(2, "comm-test --steps 1", 60));
    const auto run_with = [&](const std::string& options) {
        return run("unshare --mount bash -c 'mount -t tmpfs -o " + options + " shm /dev/shm && bash " +
                   dir.path("job") + "'");
    };
    const Finished f = run_with("mode=1777,nr_inodes=1");
    EXPECT_EQ(f.code, int(Exit::io));
    EXPECT_NE(f.err.find("convoy: /dev/shm takes no folder of this rank (No space left on device): make room"),
              std::string::npos)
        << f.out << f.err;
    const Finished closed = run_with("ro");
    EXPECT_EQ(closed.code, 0) << "OpenMPI uses its own folder: " << closed.err;
}

TEST(Segments, AJobWhoseLauncherIsKilledLeavesNone) {
    const Finished f = job_and_then("kill -9 $job", 300);
    EXPECT_TRUE(f.out.starts_with("2 0 2 2")) << f.out << f.err;
}

TEST(Segments, AJobThatEndsLeavesNoneAndIsSilent) {
    const Finished f = job_and_then("", 10);
    EXPECT_EQ(f.out, "2 0 2 2\n") << f.err;
    EXPECT_EQ(f.err.find("system call"), std::string::npos) << f.err;
}

}  // namespace
}  // namespace convoy::test
