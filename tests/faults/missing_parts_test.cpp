// A run with a missing part, or a folder that belongs to other users or to the user: Convoy starts,
// mixes or deletes nothing without a message.
#include "run/run_folder.h"
#include "tests/faults/faults.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {

class MissingParts : public FaultsTest {
protected:
    void SetUp() override {
        FaultsTest::SetUp();
        ASSERT_EQ("", failure(convoy_alone(train("--epochs 2 --keep 9"))));
    }
    std::string train(const std::string& more) const {
        return "train --model mnist-linear --batch-size 20 --threads 1 --checkpoint-every 1 --log-interval 1 "
               "--data " +
               data_ + " --output " + output_ + " " + more;
    }
    std::string resume(const std::string& more = "") const { return train("--epochs 3 --resume auto " + more); }
    std::string checkpoint(int step) const { return checkpoint_path(output_, step); }
};

// Happens, for example, if scratch is not mounted.
TEST_F(MissingParts, ALinkToCheckpointsThatLeadsNowhereIsNamed) {
    fs::rename(output_ + "/checkpoints", dir_.path("scratch"));
    fs::create_directory_symlink(dir_.path("scratch"), output_ + "/checkpoints");
    const std::string command = "echo " + output_ + " > " + dir_.path("scratch/run.txt");
    EXPECT_EQ("", refusal(convoy_alone(resume()), Exit::io, {"of an unknown run", command}));
    ASSERT_EQ(run(command).code, 0);
    EXPECT_EQ("", failure(convoy_alone(resume())));
    fs::rename(dir_.path("scratch"), dir_.path("away"));
    const std::string model = read_file(output_ + "/model.h5");
    for (const char* more : {" --dry-run", ""})
        EXPECT_EQ(
            "", refusal(convoy_alone(resume(more)), Exit::bad_input, {"/checkpoints", "cannot be read", "links lead"}))
            << more;
    EXPECT_EQ(read_file(output_ + "/model.h5"), model);
    fs::remove(output_ + "/checkpoints");
    for (const char* more : {" --dry-run", ""})
        EXPECT_EQ("",
                  refusal(convoy_alone(resume(more)), Exit::bad_input, {"model.h5", "no checkpoint to resume from"}))
            << more;
    EXPECT_EQ(read_file(output_ + "/model.h5"), model);
    record_fault("the folder of checkpoints is gone, or a link to a file system that is not mounted",
                 "exit 3, by `--dry-run` too; the model stays", "as promised", 4);
}

// Otherwise a received run folder would get another run's weights or metrics, which may be private.
TEST_F(MissingParts, LinksInARunFolderAreNotContinued) {
    const std::string metrics = output_ + "/metrics.h5", elsewhere = dir_.path("elsewhere");
    for (const std::string& file : {metrics, checkpoint(6)})
        for (const bool hard : {false, true}) {
            fs::rename(file, elsewhere);
            hard ? fs::create_hard_link(elsewhere, file) : fs::create_symlink(elsewhere, file);
            EXPECT_EQ("", refusal(convoy_alone(resume()), Exit::io, {file + ": is a link, or has several names"}));
            fs::remove(file);
            fs::rename(elsewhere, file);
        }
    EXPECT_EQ("", failure(convoy_alone(resume())));
    record_fault("links to metrics or checkpoints of another run in a run folder", "exit 5; nothing is written",
                 "as promised", 4);
}

TEST_F(MissingParts, OnlyNamesThatConvoyMakesAreCheckpoints) {
    for (const char* name : {"step-best.h5", "step-000000000003-mine.h5", "step-3.h5"})
        fs::copy_file(checkpoint(3), output_ + "/checkpoints/" + name);
    EXPECT_EQ(checkpoints_of(output_).front(), checkpoint(6));
    EXPECT_EQ("", failure(convoy_alone(resume("--keep 1"))));
    for (const char* name : {"step-best.h5", "step-000000000003-mine.h5", "step-3.h5"})
        EXPECT_TRUE(fs::exists(output_ + "/checkpoints/" + name)) << name;
}

TEST_F(MissingParts, WhatIsSetAsideIsNeverReplaced) {
    for (int time = 0; time < 2; ++time)
        ASSERT_EQ("", failure(convoy_alone(train("--epochs 2 --keep 9 --resume " + checkpoint(5)))));
    EXPECT_TRUE(fs::exists(checkpoint(6) + ".old"));
    EXPECT_TRUE(fs::exists(checkpoint(6) + ".old-2"));
}

TEST_F(MissingParts, TheBestModelIsSetAsideAndNotDeleted) {
    const std::string best = read_file(best_model_path(output_));
    fs::copy_file(checkpoint(5), output_ + "/good.h5");
    for (const std::string& path : checkpoints_of(output_)) fs::remove(path);
    const Finished f = convoy_alone(train("--epochs 2 --resume " + output_ + "/good.h5"));
    EXPECT_EQ("", failure(f));
    const bool kept = fs::exists(best_model_path(output_) + ".old") || read_file(best_model_path(output_)) == best;
    EXPECT_TRUE(kept) << f.out << f.err;
}

TEST_F(MissingParts, MetricsThatAreGoneOrDamagedAreNamed) {
    const std::string whole = read_file(output_ + "/metrics.h5");
    write_file(output_ + "/metrics.h5", whole.substr(0, whole.size() / 2));
    for (const char* more : {" --dry-run", ""})
        EXPECT_EQ("",
                  refusal(convoy_alone(resume(more)), Exit::bad_input, {"metrics.h5", "truncated", "move it away"}));
    fs::remove(output_ + "/metrics.h5");
    const Finished f = convoy_alone(resume());
    EXPECT_EQ("", failure(f));
    EXPECT_EQ(count(f.out + f.err, "metrics.h5 is missing; the new one begins after step 6"), 1) << f.err;
}

TEST_F(MissingParts, FoldersWhereFilesAreWrittenAreRefusedBeforeTheFirstStep) {
    for (const char* name : {"metrics.jsonl", "model.h5.partial", "metrics.h5.partial"}) {
        const std::string path = dir_.path("fresh/") + name;
        fs::create_directories(path + "/mine");
        for (const char* more : {" --dry-run", ""})
            EXPECT_EQ("", refusal(convoy_alone("train --model mnist-linear --batch-size 20 --threads 1 --data " +
                                               data_ + " --output " + dir_.path("fresh") + more),
                                  Exit::io, {path, "is a folder"}))
                << more;
        EXPECT_TRUE(fs::exists(path + "/mine"));
        fs::remove_all(dir_.path("fresh"));
    }
}

// Other users' files in the folder cannot be removed.
TEST_F(MissingParts, ARunThatCannotBeRemovedIsNotMixedWithAnother) {
    if (run("test $(id -u) = 0 && setpriv --version").code != 0) GTEST_SKIP() << "needs root and setpriv";
    fs::permissions(output_ + "/checkpoints", fs::perms::all | fs::perms::sticky_bit);
    for (const std::string& path : {dir_.path(), output_}) fs::permissions(path, fs::perms::all);
    fs::permissions(output_ + "/lock", fs::perms::all);
    fs::permissions(output_ + "/metrics.jsonl", fs::perms::all);
    const Finished f = run("setpriv --reuid=65534 --clear-groups env HOME=/nonexistent " + sibling("convoy") + " " +
                           train("--epochs 1 --overwrite"));
    EXPECT_EQ("", refusal(f, Exit::io, {output_ + "/checkpoints", "cannot be removed"}));
    EXPECT_TRUE(fs::exists(output_ + "/model.h5"));
}

}  // namespace
}  // namespace convoy::test
