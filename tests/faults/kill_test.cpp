// A run that is read while it trains, and runs that are killed: the files open at every moment and
// afterwards, and a job that loses one rank ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class Kill : public testing::Test {
protected:
    void SetUp() override { make_data(data_, 60, 20, "28x28x1"); }

    /// Runs a script that starts a training too long to end by itself, waits until it trains, runs
    /// `then`, and ends the remaining processes. `then` may use $job (its own process id) and the
    /// function ranks (process ids of the ranks).
    Finished with_training(int ranks, const std::string& then, const std::string& options = "") {
        const std::string arguments =
            "train --data " + data_ +
            " --model mnist-linear --batch-size 20 --epochs 10000000 --metrics-every 1 --log-interval 1 --output " +
            run_ + " " + options;
        return run("ranks() { pgrep -f '^" + sibling("convoy") + " train .*" + run_ +
                   "'; }\n"
                   "{ " +
                   launch_command(ranks, arguments, 60) + "; } >" + dir_.path("out") + " 2>" + dir_.path("err") +
                   " &\n" +
                   "job=$!\n"
                   "for i in $(seq 200); do grep -q '\"kind\":\"train\"' " +
                   run_ +
                   "/metrics.jsonl 2>/dev/null && break; sleep 0.05; done\n"
                   "[ $(ranks | wc -l) -eq " +
                   std::to_string(ranks) + " ] || { echo \"no ranks\" >&2; cat " + dir_.path("err") +
                   " >&2; exit 99; }\n" + then + "\nresult=$?; kill -9 $(ranks) 2>/dev/null; wait $job; exit $result");
    }
    /// Returns commands that open the metrics like users, with h5ls, h5dump and h5py. A failure
    /// prints to stderr and ends the script with 7.
    std::string look() const {
        write_file(dir_.path("look.py"),
                   "import h5py, sys\n"
                   "with h5py.File(sys.argv[1], 'r') as f:\n"
                   "    steps = f['train/step'][:]\n"
                   "    assert list(steps) == list(range(1, len(steps) + 1)), steps\n"
                   "    assert len(f['train/loss'][:]) == len(steps)\n"
                   "    assert 'mnist-linear' in f['run'].attrs['configuration']\n"
                   "    print(len(steps))\n");
        return "{ h5ls -r " + run_ + "/metrics.h5 >/dev/null && h5dump -H " + run_ + "/metrics.h5 >/dev/null && " +
               "${PYTHON:-/usr/bin/python3} " + dir_.path("look.py") + " " + run_ + "/metrics.h5; } || exit 7\n";
    }

    TempDir dir_;
    std::string data_ = dir_.path("data"), run_ = dir_.path("run");
};

TEST_F(Kill, MetricsOpenWhileTrainingAndAfterKill) {
    const Finished f = with_training(
        2, "for look in 1 2 3 4 5 6 7 8 9 10; do\n" + look() + "done\nkill -9 $(ranks); wait $job\n" + look(),
        "--publish-every 0.1s");
    ASSERT_EQ(f.code, 0) << f.out << f.err;
    std::istringstream in(f.out);  // number of rows that each look found
    std::vector<int> rows;
    for (int n = 0; in >> n;) rows.push_back(n);
    ASSERT_EQ(rows.size(), 11u) << f.out;
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end())) << f.out;
    EXPECT_GT(rows[9], rows[0]) << "the file did not grow while the run went on: " << f.out;

    // Every line of metrics.jsonl except perhaps the last one is complete. The file holds at least
    // the rows of metrics.h5.
    write_file(dir_.path("lines.py"),
               "import json, sys\n"
               "lines = open(sys.argv[1]).read().split('\\n')\n"
               "print(sum(json.loads(line)['kind'] == 'train' for line in lines[:-1]))\n");
    const Finished lines = run("${PYTHON:-/usr/bin/python3} " + dir_.path("lines.py") + " " + run_ + "/metrics.jsonl");
    ASSERT_EQ(lines.code, 0) << lines.err;
    EXPECT_GE(std::stoi(lines.out), rows.back());
    record_fault("metrics opened by h5ls, h5dump and h5py while training, and after kill -9",
                 "always openable, rows never lost",
                 std::to_string(rows.size()) + " looks, " + std::to_string(rows.back()) + " rows at the end", 1);
}

TEST_F(Kill, OneRankLessEndsTheJob) {
    int slowest = 0;
    for (const char* victim : {"head", "tail"}) {  // the first rank, or another
        const Finished f =
            with_training(3, "start=$(date +%s%N); kill -9 $(ranks | sort -n | " + std::string(victim) +
                                 " -n 1); wait $job; code=$?\n"
                                 "echo $code $(( ($(date +%s%N) - start) / 1000000 )); [ -z \"$(ranks)\" ] || exit 8");
        EXPECT_EQ(f.code, 0) << "ranks were left behind: " << f.out << f.err;
        int code = 0, milliseconds = 1 << 30;
        ASSERT_EQ(std::sscanf(f.out.c_str(), "%d %d", &code, &milliseconds), 2) << f.out << f.err;
        EXPECT_NE(code, 0);
        EXPECT_NE(code, 124) << "the job went on until its time limit";
        EXPECT_LT(milliseconds, 10000);
        std::printf("%s: exit code %d after %d ms\n", victim, code, milliseconds);
        slowest = std::max(slowest, milliseconds);
        run("rm -r " + run_);
    }
    record_fault("one of 3 ranks killed", "all ranks gone in 10 s, exit code not 0",
                 "gone after at most " + std::to_string(slowest) + " ms", 2);
}

TEST_F(Kill, StoppedRankIsNamed) {
    const Finished f = with_training(3,
                                     "victim=$(ranks | sort -n | tail -n 1)\n"
                                     "tr '\\0' '\\n' </proc/$victim/environ | sed -n 's/^OMPI_COMM_WORLD_RANK=//p'\n"
                                     "kill -STOP $victim; start=$(date +%s); wait $job; code=$?\n"
                                     "echo $code $(($(date +%s) - start)); [ -z \"$(ranks)\" ] || exit 8",
                                     "--watchdog 6s");
    EXPECT_EQ(f.code, 0) << "ranks were left behind: " << f.out << f.err;
    int rank = -1, code = 0, seconds = 1 << 30;
    ASSERT_EQ(std::sscanf(f.out.c_str(), "%d %d %d", &rank, &code, &seconds), 3) << f.out << f.err;
    EXPECT_EQ(code, int(Exit::comm));
    EXPECT_LT(seconds, 20);
    const std::string err = read_file(dir_.path("err"));
    EXPECT_NE(err.find("no progress for 6 s (--watchdog): rank " + std::to_string(rank) + " did not report"),
              std::string::npos)
        << err;
    EXPECT_NE(err.find("is in '"), std::string::npos) << err;
    record_fault("SIGSTOP to one of 3 ranks, `--watchdog 6s`", "exit 6, that rank named",
                 "exit 6 after " + std::to_string(seconds) + " s, named", 1);
}

// Two hosts with two ranks each; the cable between them is cut.
TEST_F(Kill, CutLinkEndsTheJobOnBothHosts) {
    const std::string train = sibling("convoy") + " train --data " + data_ +
                              " --model mnist-linear --batch-size 20 --epochs 10000000 --log-interval 1 --output " +
                              run_ + " --watchdog 8s >/dev/null";
    const Finished f = run(with_limit("tests/support/two_hosts.sh '" + train + "' 2 " + run_ + "/metrics.h5", 100) +
                           " 2>" + dir_.path("err"));
    if (f.code == 77) GTEST_SKIP() << "no permission to make network namespaces";
    const std::string err = read_file(dir_.path("err"));
    int code = 0, seconds = 1 << 30;
    ASSERT_EQ(std::sscanf(f.out.c_str(), "%d %d", &code, &seconds), 2) << f.out << err;
    EXPECT_NE(code, 0) << err;  // 6 if mpirun survives the loss of its daemon
    EXPECT_LT(seconds, 30);
    for (const char* who : {"rank 0 on convoy-a is in", "rank 3 on convoy-b is in", "a link between hosts is dead"})
        EXPECT_NE(err.find(who), std::string::npos) << who << ": " << err;
    EXPECT_NE(run("sleep 8; pgrep -f '" + run_ + "'").code, 0) << "processes were left behind";
    record_fault("the link between two hosts cut, `--watchdog 8s`", "both hosts end, every rank says where it was",
                 "exit " + std::to_string(code) + " after " + std::to_string(seconds) + " s, no process left", 1);
}

}  // namespace
}  // namespace convoy::test
