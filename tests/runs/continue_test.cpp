// A run resumed by `--resume auto --output RUN` alone: it uses the options that it recorded, and
// gives the same bits. Also the command for that, which a run prints when it stops.
#include <gtest/gtest.h>

#include "base/shell_word.h"
#include "tests/runs/resume.h"

namespace convoy::test {
namespace {

class Continue : public ResumeTest {
protected:
    /// Returns options for 100 steps. With a time limit the run ends after the first step.
    Options options(Options more = {}) const {
        more.insert({{"model", "mnist-linear"}, {"epochs", "1"}, {"threads", "1"}, {"seed", "5"}});
        return more;
    }
    Options stopped(Options more = {}) const {
        more["time-limit"] = "1s";
        return options(more);
    }
    std::string alone(const std::string& run, const std::string& more = "") const {
        return "train --resume auto --output " + dir_.path(run) + " " + more;
    }
    /// Returns the command that a run printed when it was stopped.
    static std::string printed(const Finished& f) {
        const std::string before = "; continue with: ";
        const size_t at = f.out.find(before);
        return at == std::string::npos ? ""
                                       : f.out.substr(at + before.size(), f.out.find('\n', at) - at - before.size());
    }
    static constexpr const char* to_the_end = " --time-limit 100h";
};

TEST_F(Continue, ByThePrintedCommandToTheSameBits) {
    ASSERT_EQ("", failure(launch(2, train("whole", options()))));
    const Finished first = launch(2, train("part", stopped()));
    ASSERT_EQ(first.code, int(Exit::requeue)) << first.err;
    const std::string command = printed(first);
    EXPECT_TRUE(command.starts_with("mpirun ")) << command;
    EXPECT_TRUE(command.ends_with("convoy train --resume auto --output " + dir_.path("part"))) << command;
    const Finished again = run(with_limit(command + to_the_end, 60));
    ASSERT_EQ("", failure(again));
    EXPECT_NE(again.out.find("options   from " + dir_.path("part") + "/metrics.h5;"), std::string::npos) << again.out;
    EXPECT_EQ(column(dir_.path("part"), "ranks/rank").size(), 2u);
    expect_same("whole", "part");
}

// Logs keep the printed command.
TEST_F(Continue, ThePrintedCommandHasNoValuesOfVariables) {
    const Finished f = mpirun("-np 1 -x TOKEN=s3cret " + sibling("convoy") + " " +
                              train("part", stopped({{"log-dir", dir_.path("logs")}})));
    ASSERT_EQ(f.code, int(Exit::requeue)) << f.err;
    EXPECT_NE(printed(f).find(" -x TOKEN "), std::string::npos) << printed(f);
    EXPECT_EQ(f.out.find("s3cret"), std::string::npos);
    EXPECT_NE(run("grep -r s3cret " + dir_.path()).code, 0) << "a file has the value";
}

TEST_F(Continue, WithoutMpirunAndInAFolderWithAnOddName) {
    ASSERT_EQ("", failure(convoy_alone(train("whole", options()))));
    const std::string name = dir_.path("it's a run");
    const Finished first = convoy_alone(train("x", stopped({{"output", shell_word(name)}})));
    ASSERT_EQ(first.code, int(Exit::requeue)) << first.err;
    ASSERT_EQ("", failure(run(with_limit(printed(first) + to_the_end, 60))));
    EXPECT_EQ(column(dir_.path("whole"), "train/loss"), column(name, "train/loss"));
}

TEST_F(Continue, OptionsOfTheCommandLineWinAsFarAsTheyMayChange) {
    ASSERT_EQ(convoy_alone(train("run", stopped())).code, int(Exit::requeue));
    EXPECT_EQ("", refusal(convoy_alone(alone("run", "--seed 6")), Exit::usage, {"seed", "5", "6"}));
    EXPECT_EQ("",
              refusal(convoy_alone(alone("run", "--batch-per-rank 30")), Exit::usage, {"--batch-size", "20", "30"}));
    ASSERT_EQ("", failure(convoy_alone(alone("run", "--epochs 2 --lr 0.02" + std::string(to_the_end)))));
    EXPECT_EQ(column(dir_.path("run"), "train/step").size(), 200u);
    const std::vector<double> rates = column(dir_.path("run"), "train/learning_rate");
    EXPECT_FLOAT_EQ(float(rates.front()), 0.01f);
    EXPECT_FLOAT_EQ(float(rates.back()), 0.02f);
}

TEST_F(Continue, AWholeCommandLineTakesNothingFromTheRun) {
    ASSERT_EQ("", failure(convoy_alone(train("run", options({{"max-steps", "3"}})))));
    ASSERT_EQ("", failure(convoy_alone(train("run", resumed(options())))));
    EXPECT_EQ(column(dir_.path("run"), "train/step").size(), 100u) << "--max-steps is not given any more";
}

TEST_F(Continue, FromTheCheckpointWhereTheMetricsWereMovedAway) {
    ASSERT_EQ("", failure(convoy_alone(train("whole", options()))));
    ASSERT_EQ(convoy_alone(train("run", stopped())).code, int(Exit::requeue));
    fs::rename(dir_.path("run") + "/metrics.h5", dir_.path("elsewhere"));
    ASSERT_EQ("", failure(convoy_alone(alone("run", to_the_end))));
    EXPECT_EQ(tensors(dir_.path("whole") + "/model.h5"), tensors(dir_.path("run") + "/model.h5"));
}

// Options that write or replace come from the command line only, never from the run.
TEST_F(Continue, TakesNoOptionThatWritesFromTheRun) {
    ASSERT_EQ("", failure(convoy_alone(train("run", options({{"max-steps", "1"}})))));
    const Finished f = convoy_alone(train("run", stopped({{"overwrite", "true"}, {"log-dir", dir_.path("logs")}})));
    ASSERT_EQ(f.code, int(Exit::requeue)) << f.err;
    EXPECT_TRUE(printed(f).ends_with(" --log-dir " + dir_.path("logs"))) << printed(f);
    fs::remove_all(dir_.path("logs"));
    const Finished again = convoy_alone(alone("run", to_the_end));
    ASSERT_EQ("", failure(again));
    EXPECT_NE(again.out.find("--log-dir is not taken from there"), std::string::npos) << again.out;
    EXPECT_FALSE(fs::exists(dir_.path("logs")));
    EXPECT_EQ(column(dir_.path("run"), "train/step").size(), 100u);
}

TEST_F(Continue, ARunWithoutWholePathsNeedsItsData) {
    const Finished first = convoy_alone(train("run", stopped({{"no-environment", "true"}})));
    ASSERT_EQ(first.code, int(Exit::requeue)) << first.err;
    EXPECT_EQ("", refusal(convoy_alone(alone("run")), Exit::usage, {"run/metrics.h5", "--no-environment", "--data"}));
    EXPECT_TRUE(printed(first).ends_with(" --data " + dir_.path("data"))) << printed(first);
    ASSERT_EQ("", failure(run(with_limit(printed(first) + to_the_end, 60))));
    EXPECT_EQ(column(dir_.path("run"), "train/step").size(), 100u);
}

TEST_F(Continue, WhereThereIsNoRunOrADamagedOneItIsSaid) {
    EXPECT_EQ("", refusal(convoy_alone(alone("none")), Exit::usage, {"none/metrics.h5", "--data"}));
    fs::create_directories(dir_.path("hurt"));
    write_file(dir_.path("hurt") + "/metrics.h5", "no HDF5");
    EXPECT_EQ("", refusal(convoy_alone(alone("hurt")), Exit::bad_input, {"hurt/metrics.h5"}));
    EXPECT_EQ("", refusal(launch(2, alone("hurt")), Exit::bad_input, {"hurt/metrics.h5"}));
    EXPECT_EQ("", refusal(convoy_alone("train --resume auto"), Exit::usage, {"--data"}));
}

TEST_F(Continue, ADryRunTakesTheSameOptions) {
    ASSERT_EQ(convoy_alone(train("run", stopped())).code, int(Exit::requeue));
    const Finished dry = convoy_alone(alone("run", "--dry-run"));
    ASSERT_EQ("", failure(dry));
    EXPECT_NE(dry.out.find("seed=5"), std::string::npos) << dry.out;
    const Finished config = convoy_alone(alone("run", "--print-config"));
    EXPECT_EQ(value_in(config.out, "seed"), "5") << config.out;
    EXPECT_NE(config.out.find("\n# resume = auto\n"), std::string::npos) << "a recipe may not hold it: " << config.out;
}

}  // namespace
}  // namespace convoy::test
