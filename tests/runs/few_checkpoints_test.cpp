// Trainings that leave no checkpoint: `--checkpoint-every none` takes one only before a stop,
// `--keep 0` removes them once the run is done. Their models equal those of runs that keep
// checkpoints.
#include <gtest/gtest.h>

#include "tests/runs/resume.h"

namespace convoy::test {
namespace {

class FewCheckpoints : public ResumeTest {
protected:
    std::string few(const std::string& run, Options more = {}) const {
        more.insert({{"model", "mnist-linear"}, {"epochs", "2"}, {"threads", "1"}});
        return train(run, more);
    }
    size_t kept(const std::string& run) const {
        return fs::exists(dir_.path(run) + "/checkpoints") ? checkpoints(run).size() : 0;
    }
    void expect_models_of(const std::string& a, const std::string& b) {
        for (const char* model : {"/model.h5", "/model-best.h5"})
            EXPECT_EQ(tensors(dir_.path(a) + model), tensors(dir_.path(b) + model)) << model;
    }
};

TEST_F(FewCheckpoints, NoneLeavesNoneAndTheSameModels) {
    ASSERT_EQ("", failure(launch(2, few("usual"))));
    ASSERT_EQ("", failure(launch(2, few("none", {{"checkpoint-every", "none"}}))));
    EXPECT_GT(kept("usual"), 0u);
    EXPECT_EQ(kept("none"), 0u);
    expect_models_of("usual", "none");
    const std::string events = run("h5dump -d /events/kind " + dir_.path("none") + "/metrics.h5").out;
    EXPECT_EQ(count(events, "\"checkpoint"), 0) << events;
}

TEST_F(FewCheckpoints, AStopLeavesOneAlsoIfNoneAreAskedFor) {
    const Options none = {{"checkpoint-every", "none"}, {"time-limit", "1s"}};
    ASSERT_EQ("", failure(convoy_alone(few("whole", {{"checkpoint-every", "none"}}))));
    ASSERT_EQ(convoy_alone(few("run", none)).code, int(Exit::requeue));
    EXPECT_EQ(kept("run"), 1u);
    ASSERT_EQ("", failure(convoy_alone(few("run", resumed({{"checkpoint-every", "none"}})))));
    expect_same("whole", "run");
}

TEST_F(FewCheckpoints, KeepZeroHasOneWhileItTrainsAndNoneWhenItIsDone) {
    ASSERT_EQ("", failure(convoy_alone(few("usual"))));
    ASSERT_EQ(convoy_alone(few("run", {{"keep", "0"}, {"time-limit", "1s"}})).code, int(Exit::requeue));
    EXPECT_EQ(kept("run"), 1u);
    write_file(dir_.path("run") + "/checkpoints/mine.h5", "of the user");
    ASSERT_EQ("", failure(convoy_alone(few("run", resumed({{"keep", "0"}})))));
    EXPECT_EQ(checkpoints("run"), std::vector<std::string>{dir_.path("run") + "/checkpoints/mine.h5"});
    expect_models_of("usual", "run");
}

TEST_F(FewCheckpoints, ADoneRunIsDoneAndIsNotTrainedAgain) {
    for (const auto& [option, value] : Options{{"keep", "0"}, {"checkpoint-every", "none"}}) {
        const Options none = {{option, value}};
        ASSERT_EQ("", failure(convoy_alone(few(option, none))));
        const std::string model = dir_.path(option) + "/model.h5", before = read_file(model);
        for (const int ranks : {1, 2}) {
            const Finished again = launch(ranks, few(option, resumed(none)));
            EXPECT_EQ("", failure(again));
            EXPECT_NE(again.out.find("done: the run had ended already, after 200 steps"), std::string::npos)
                << again.out;
        }
        EXPECT_EQ(read_file(model), before);
        const Finished dry = convoy_alone(few(option, resumed(none)) + " --dry-run");
        EXPECT_EQ("", failure(dry));
        EXPECT_NE(dry.out.find("done already"), std::string::npos) << dry.out;
        Options longer = resumed(none);
        longer["epochs"] = "3";
        EXPECT_EQ("", refusal(convoy_alone(few(option, longer)), Exit::bad_input, {"no checkpoint", "--keep 0"}));
    }
}

// It may be another user's, under a name that a job takes.
TEST_F(FewCheckpoints, ADoneRunOfAnotherModelIsNotThatOfThisRun) {
    const Options none = {{"keep", "0"}};
    ASSERT_EQ("", failure(convoy_alone(few("run", none))));
    for (const auto& [option, value] : Options{{"model", "mnist-conv"}, {"seed", "77"}}) {
        Options other = resumed(none);
        other[option] = value;
        for (const char* more : {"", " --dry-run"})
            EXPECT_EQ("", refusal(convoy_alone(few("run", other) + more), Exit::usage,
                                  {dir_.path("run"), option + " was ", "this run has " + value, "--output"}));
    }
}

TEST_F(FewCheckpoints, RollbackNeedsThem) {
    const Options both = {{"checkpoint-every", "none"}, {"on-nan", "rollback"}};
    EXPECT_EQ("",
              refusal(convoy_alone(few("run", both)), Exit::usage, {"--on-nan rollback", "--checkpoint-every none"}));
}

}  // namespace
}  // namespace convoy::test
