// Files that cannot be opened, and file systems that refuse HDF5's calls: each is named, and no
// file that may be sound is skipped, renamed or deleted. tests/support/refuse_calls.c makes calls
// fail.
#include <unistd.h>

#include "tests/faults/faults.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

class FaultsOfOpening : public FaultsTest {
protected:
    void SetUp() override {
        FaultsTest::SetUp();
        const Finished made = run("cc -shared -fPIC -O1 -w -o " + library_ + " tests/support/refuse_calls.c -ldl");
        if (made.code != 0) GTEST_SKIP() << "no C compiler: " << made.err;
    }
    std::string train(const std::string& more = "") const {
        return "train --model mnist-linear --batch-size 20 --threads 1 --checkpoint-every 2 --data " + data_ +
               " --output " + output_ + " " + more;
    }
    /// Runs a command while `calls` fail, given as "flock:37:PART-OF-PATH".
    Finished while_refused(const std::string& calls, const std::string& command) const {
        return run("export LD_PRELOAD=" + library_ + " REFUSE_CALLS='" + calls +
                   "' ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0; " +
                   with_limit(sibling("convoy") + " " + command, 60));
    }
    /// Makes a run of six steps, with checkpoints after 3, 4 and 6.
    void make_run() const { ASSERT_EQ("", failure(convoy_alone(train("--epochs 2")))); }
    std::string checkpoint(int step) const {
        return output_ + "/checkpoints/step-00000000000" + std::to_string(step) + ".h5";
    }
    std::string listing() const {
        return run("find " + dir_.path() + " -not -type d -printf '%p %s %T@\n' | sort").out;
    }
    /// Holds files open for writing like a notebook, runs `commands`, and is then killed.
    Finished while_open(const std::string& files, const std::string& commands) const {
        fs::remove(dir_.path("notebook"));  // or the shell finds the "open" of an earlier call
        return run(python_with("h5py") +
                   " -c \"import h5py, sys, time; f = [h5py.File(p, 'r+') for p in sys.argv[1:]]; "
                   "print('open', flush=True); time.sleep(120)\" " +
                   files + " >" + dir_.path("notebook") + " & notebook=$!\nfor i in $(seq 3000); do grep -q open " +
                   dir_.path("notebook") + " 2>/dev/null && break; sleep 0.02; done\n" + commands +
                   "; code=$?; kill -9 $notebook; wait $notebook 2>/dev/null; exit $code");
    }
    std::string resume(const std::string& more = "") const {
        return with_limit(sibling("convoy") + " " + train("--epochs 3 --resume auto " + more), 60);
    }
    /// Expects that dry run and training refuse a run alike, and that both leave every file
    /// unchanged.
    void refused_alike(const std::string& calls, Exit code, const std::vector<std::string>& words,
                       const std::string& more) {
        const std::string before = listing();
        for (const char* dry : {" --dry-run", ""}) {
            const Finished f = while_refused(calls, train(more + dry));
            EXPECT_EQ("", refusal(f, code, words)) << calls << dry;
            EXPECT_EQ(f.err.find("damaged"), std::string::npos) << f.err;
        }
        if (code == Exit::bad_input) fs::remove(output_ + "/lock");
        EXPECT_EQ(listing(), before) << calls;
    }

    const std::string library_ = dir_.path("refuse.so");
};

TEST_F(FaultsOfOpening, AFileSystemWithoutLocksNeedsNone) {
    std::string calls;
    for (const char* code : {"524", "30", "37"}) {  // not supported; read-only; no locks available
        calls = std::string("flock:") + code + ":/ fcntl:" + code + ":/";
        const Finished f = while_refused(calls, train("--overwrite"));
        EXPECT_EQ("", failure(f));
        EXPECT_EQ(count(f.err, "no locks"), 1) << "a second run would not be refused: " << f.err;
        EXPECT_TRUE(fs::exists(output_ + "/model.h5"));
    }
    EXPECT_EQ("", failure(while_refused(calls, train("--overwrite --dry-run"))));
    EXPECT_EQ("", failure(while_refused(calls, "verify " + data_)));
    EXPECT_EQ("", failure(while_refused(calls, train("--resume auto --epochs 2"))));
    if (!python_with("h5py, numpy, matplotlib").empty()) {
        EXPECT_EQ("", failure(while_refused(calls, "plot " + output_ + " --out " + dir_.path("run.png"))));
        EXPECT_TRUE(fs::exists(dir_.path("run.png")));
    }
    record_fault("a file system without locks (errno 37, 524, 30)", "trains, resumes, verifies and draws; a warning",
                 "as promised", 7);
}

TEST_F(FaultsOfOpening, ACheckpointThatCannotBeOpenedIsNotSkipped) {
    make_run();
    const std::string newest = checkpoint(6);
    fs::remove(output_ + "/lock");
    for (const auto& [call, words] : {std::pair<std::string, std::string>{"open:13", "Permission denied"},
                                      {"open:24", "ulimit -n"},
                                      {"open:116", "Stale file handle"},
                                      {"pread:5", "Input/output error"}})
        refused_alike(call + ":" + newest, Exit::bad_input, {newest, words, "--resume " + checkpoint(4)},
                      "--epochs 3 --resume auto");
    const Finished older = while_refused("open:13:" + newest, train("--epochs 3 --resume " + checkpoint(4)));
    EXPECT_EQ("", failure(older)) << "the one that was named can be opened";
    record_fault("the newest checkpoint cannot be opened (EACCES, EIO, EMFILE, ESTALE)",
                 "refused, exit 3, by `--dry-run` too; nothing is renamed; an older one that is named is taken",
                 "as promised", 9);
}

TEST_F(FaultsOfOpening, ACheckpointThatIsOpenInANotebookIsNotSkipped) {
    if (python_with("h5py").empty()) GTEST_SKIP() << "no python3 with h5py";
    make_run();
    const std::string names = run("ls " + output_ + "/checkpoints").out;
    const auto refused_while = [&](const std::string& files, const std::vector<std::string>& words,
                                   const std::string& more = "") {
        const Finished f = while_open(files, resume(more));
        EXPECT_EQ("", refusal(f, Exit::bad_input, words));
        EXPECT_EQ(f.err.find("--overwrite"), std::string::npos) << f.err;
        EXPECT_EQ(run("ls " + output_ + "/checkpoints").out, names);
        EXPECT_EQ(run("for f in " + files + "; do h5clear -s $f; done").code, 0);
    };
    refused_while(checkpoint(6), {checkpoint(6), "open for writing elsewhere", "--resume " + checkpoint(4)});
    refused_while(output_ + "/checkpoints/*", {checkpoint(6), "open for writing elsewhere"});
    refused_while(output_ + "/metrics.h5", {"metrics.h5", "open for writing elsewhere"}, "--dry-run");
    refused_while(output_ + "/metrics.h5", {"metrics.h5", "open for writing elsewhere"});
    EXPECT_EQ("", failure(run(resume()))) << "nothing was lost";
    record_fault("the newest checkpoint, all of them, or the metrics are open for writing in a notebook",
                 "refused, exit 3; nothing is renamed", "as promised", 4);
}

// The checkpoints may be sound, so a run must not start at step 0 in their folder.
TEST_F(FaultsOfOpening, CheckpointsThatCannotBeListedAreNotForgotten) {
    if (geteuid() != 0) GTEST_SKIP() << "only root may start programs as another user";
    make_run();
    const std::string folder = output_ + "/checkpoints";
    ASSERT_EQ(run("chmod a+x " + dir_.path() + "; chown -R 65534 " + dir_.path() + "; chmod 0300 " + folder).code, 0);
    for (const std::string dry : {" --dry-run", ""}) {
        const Finished f = run(with_limit("setpriv --reuid=65534 --clear-groups env HOME=" + dir_.path() + " " +
                                              sibling("convoy") + " " + train("--epochs 3 --resume auto" + dry),
                                          60));
        if (f.code == 126 || f.code == 127) GTEST_SKIP() << "another user may not start build/convoy here: " << f.err;
        EXPECT_EQ("", refusal(f, Exit::bad_input, {folder, "Permission denied"})) << dry;
    }
    EXPECT_EQ(column(output_, "train/step").size(), 6u) << "rows were dropped";
}

TEST_F(FaultsOfOpening, AShardThatCannotBeReadIsNotDamaged) {
    for (const auto& [call, words] : {std::pair<std::string, std::string>{"open:13", "Permission denied"},
                                      {"open:24", "ulimit -n"},
                                      {"open:116", "Stale file handle"},
                                      {"pread:5", "Input/output error"}}) {
        for (const std::string& command : {"verify " + data_, train()}) {
            const Finished f = while_refused(call + ":" + second_, command);
            EXPECT_EQ("", refusal(f, Exit::bad_input, {second_, words}));
            for (const char* wrong : {"damaged", "convert", "make it again"})
                EXPECT_EQ(f.err.find(wrong), std::string::npos) << f.err;
        }
    }
    record_fault("a shard cannot be read (EACCES, EIO, EMFILE, ESTALE)", "refused in its own words, exit 3",
                 "as promised", 8);
}

TEST_F(FaultsOfOpening, WhatCheckpointsNeedIsTriedBeforeTheFirstStep) {
    const std::string trial = dir_.path() + "/.convoy-";
    for (const auto& [call, words] : {std::pair<std::string, std::string>{"open:30", "Read-only file system"},
                                      {"fsync:5", "Input/output error"},
                                      {"rename:122", "Disk quota exceeded"}})
        refused_alike(call + ":" + trial, Exit::io, {output_, "trial checkpoint", words, "another --output"}, "");
    EXPECT_FALSE(fs::exists(output_));
    make_run();
    fs::remove(output_ + "/lock");
    fs::rename(output_ + "/checkpoints", dir_.path("elsewhere"));
    write_file(dir_.path("elsewhere/run.txt"), output_ + "\n");
    fs::create_symlink(dir_.path("elsewhere"), output_ + "/checkpoints");
    refused_alike("fsync:5:" + dir_.path("elsewhere"), Exit::io, {output_ + "/checkpoints", "trial checkpoint"},
                  "--overwrite");
    record_fault("HDF5 files cannot be made, synced, renamed or read where the run or its checkpoints go",
                 "refused before the first step, exit 5, by `--dry-run` too; no file is left", "as promised", 8);
}

TEST_F(FaultsOfOpening, MoreShardsThanFilesMayBeOpen) {
    const std::string data = dir_.path("many");
    make_data(data, 400, 20, "28x28x1", 200);
    const auto limited = [&](const std::string& arguments) {
        return failure(run("ulimit -n 64; " + with_limit(sibling("convoy") + " " + arguments, 60)));
    };
    const std::string train =
        "train --model mnist-linear --batch-size 20 --threads 1 --overwrite --data " + data + " --output " + output_;
    EXPECT_EQ("", limited(train));
    EXPECT_EQ("", limited(train + " --data-placement stream"));
    EXPECT_EQ("", limited("verify " + data));
    EXPECT_EQ("", limited("evaluate --split train --data " + data + " --model-file " + output_ + "/model.h5"));
    record_fault("200 shards, `ulimit -n 64`", "trained, streamed, evaluated and verified", "as promised", 4);
}

// The advice must not delete usable files.
TEST_F(FaultsOfOpening, NoAdviceDeletesDamagedCheckpoints) {
    make_run();
    for (const int step : {3, 4, 6}) write_file(checkpoint(step), "damaged");
    const Finished f = run(resume());
    EXPECT_EQ("", refusal(f, Exit::bad_input, {output_, "none of the 3", "another --output"}));
    EXPECT_EQ(f.err.find("--overwrite"), std::string::npos) << f.err;
}

}  // namespace
}  // namespace convoy::test
