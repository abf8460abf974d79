// Paths that the system refuses: a name of 256 letters, a link to itself, a path below a file, an
// empty word, a current folder that was removed. Each ends with its exit code and message.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/shell_word.h"
#include "run/run_folder.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class OddPaths : public testing::Test {
protected:
    void SetUp() override {
        make_data(data_, 40, 20, "28x28x1");
        ASSERT_EQ(run("cd " + dir_.path() + " && ln -s loop loop && touch file && ln -s file link").code, 0);
    }
    std::string train(const std::string& arguments) const {
        return "train --device cpu --model mnist-linear --batch-size 20 --data " + data_ + " " + arguments;
    }
    /// Runs `convoy ARGUMENTS` in a folder that has been removed.
    Finished without_folder(const std::string& arguments) const {
        return run("mkdir " + dir_.path("gone") + " && cd " + dir_.path("gone") + " && rmdir " + dir_.path("gone") +
                   " && " + with_limit(convoy_ + " " + arguments, 60));
    }

    TempDir dir_;
    std::string data_ = dir_.path("data"), convoy_ = std::filesystem::absolute(sibling("convoy")).string();
    struct Odd {
        std::string name, reason;
    };
    std::vector<Odd> odd_ = {{dir_.path(std::string(256, 'n')), "File name too long"},
                             {dir_.path(std::string(256, 'n') + "/x"), "File name too long"},
                             {dir_.path("loop"), "Too many levels of symbolic links"},
                             {dir_.path("loop/x"), "Too many levels of symbolic links"},
                             {dir_.path("file/x"), "Not a directory"}};
};

TEST_F(OddPaths, OfRunFoldersAreNamedWithTheReason) {
    for (const Odd& odd : odd_)
        for (const bool resume : {false, true}) {
            const std::vector<std::string> words = {odd.name + ": cannot be created: " + odd.reason, "--output"};
            EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { RunFolder(odd.name, resume, !resume); }));
            EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { check_can_write(odd.name); }));
        }
}

TEST_F(OddPaths, OfTrainingsEndThem) {
    for (const Odd& odd : {odd_[0], odd_[3]})
        for (const char* more : {"", " --dry-run"})
            EXPECT_EQ("", refusal(convoy_alone(train("--epochs 1 --output " + odd.name + more)), Exit::io,
                                  {odd.name + ": cannot be created: " + odd.reason, "--output"}))
                << more;
    record_fault("a path that the system refuses: a name of 256 letters, a link in a loop, below a file",
                 "one line with the path and the reason, exit 5, by `--dry-run` too", "as promised", 4);
}

TEST_F(OddPaths, OfBenchmarksAndPicturesEndThem) {
    EXPECT_EQ(
        "", refusal(convoy_alone("bench --device cpu --model mnist-linear --batch-per-rank 4 --output " + odd_[2].name),
                    Exit::io, {odd_[2].name + ": cannot be created: " + odd_[2].reason}));
    const std::string predict =
        "predict --model resnet50 --batch-per-rank 4 --cluster jobs/site/dgx-a100.cluster --plot ";
    for (const Odd& odd : odd_)
        EXPECT_EQ("",
                  refusal(convoy_alone(predict + odd.name + "/x.png"), Exit::io, {"--plot " + odd.name, odd.reason}));
}

TEST_F(OddPaths, TheCurrentFolderMayBeGone) {
    EXPECT_EQ("", failure(without_folder(train("--epochs 1 --output " + dir_.path("run")))));
    EXPECT_EQ(column(dir_.path("run"), "train/loss").size(), 2u);
    for (const char* more : {"", " --dry-run"}) {
        const Finished f = without_folder(train(std::string("--epochs 1 --output run") + more));
        EXPECT_EQ(f.code, int(Exit::io)) << f.err;
        EXPECT_EQ(count(f.err, "convoy: run: cannot be created: No such file or directory"), 1) << f.err;
    }
    record_fault("the current folder is gone", "an absolute `--output` is trained into; a relative one: exit 5",
                 "as promised", 3);
}

// The lines that a run prints at its end can be pasted into a shell.
TEST_F(OddPaths, OfPrintedCommandsAreQuoted) {
    const std::string name = dir_.path("it's a $run; é");
    const Finished done = convoy_alone(train("--epochs 1 --output " + shell_word(name)));
    ASSERT_EQ("", failure(done));
    const size_t metrics = done.out.find("metrics in "), model = done.out.find(", model in "),
                 draw = done.out.find("; draw it: ");
    ASSERT_TRUE(metrics < model && model < draw && draw != std::string::npos) << done.out;
    const auto said = [&](size_t from, size_t to) { return run("printf %s " + done.out.substr(from, to - from)).out; };
    EXPECT_EQ(said(metrics + 11, model), name + "/metrics.h5");
    EXPECT_EQ(said(model + 11, draw), name + "/model.h5");
    const std::string command = run("printf '%s|' " + done.out.substr(draw + 11)).out;
    EXPECT_TRUE(command.ends_with("convoy|plot|" + name + "|")) << command;
}

TEST_F(OddPaths, OfAStoppedRunAreQuoted) {
    const std::string name = dir_.path("it's a run");
    const Finished stopped = convoy_alone(train("--epochs 1000000 --time-limit 1s --output " + shell_word(name)));
    ASSERT_EQ(stopped.code, int(Exit::requeue)) << stopped.err;
    const std::string before = "continue with: ";
    const size_t at = stopped.out.find(before);
    ASSERT_NE(at, std::string::npos) << stopped.out;
    const std::string command = run("printf '%s|' " + stopped.out.substr(at + before.size())).out;
    EXPECT_TRUE(command.ends_with("convoy|train|--resume|auto|--output|" + name + "|")) << command;
}

}  // namespace
}  // namespace convoy::test
