// The checkpoint from which a run resumes: the newest sound one of the same run. Damaged ones are
// skipped, and the message names what changed in a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "run/metrics.h"
#include "tests/ops/op_harness.h"
#include "tests/runs/resume.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {

using ResumeFrom = ResumeTest;

// After the first epoch the rate is 0, so no later evaluation is better: the best checkpoint is not
// among the newest.
TEST_F(ResumeFrom, KeepsTheNewestAndTheBest) {
    const Options changes = {{"model", "mnist-linear"},
                             {"threads", "1"},
                             {"keep", "3"},
                             {"lr-schedule", "linear"},
                             {"lr-points", "0:1,1:1,1.001:0"}};
    ASSERT_EQ("", failure(launch(1, train("kept", changes))));
    const std::vector<double> accuracy = column(dir_.path("kept"), "eval/accuracy");
    const int64_t best =
        100 * (1 + std::distance(accuracy.begin(), std::max_element(accuracy.begin(), accuracy.end())));
    ASSERT_LE(best, 200);
    std::vector<std::string> expected;
    for (const int64_t step : {best, int64_t(360), int64_t(390), int64_t(400)})
        expected.push_back(checkpoint_path(dir_.path("kept"), step));
    EXPECT_EQ(checkpoints("kept"), expected);
}

TEST_F(ResumeFrom, CheckpointsEveryOtherEpoch) {
    const Options changes = {
        {"model", "mnist-linear"}, {"checkpoint-every", "2e"}, {"epochs", "5"}, {"eval-every", "0"}, {"keep", "9"}};
    ASSERT_EQ("", failure(launch(2, train("epochs", changes))));
    std::vector<std::string> expected;
    for (const int64_t step : {200, 400, 500}) expected.push_back(checkpoint_path(dir_.path("epochs"), step));
    EXPECT_EQ(checkpoints("epochs"), expected);
}

TEST_F(ResumeFrom, DamagedCheckpointsAreSkippedAloud) {
    ASSERT_EQ("", failure(launch(1, train("whole"))));
    ASSERT_EQ("", failure(launch(1, train("hurt", {{"max-steps", "130"}, {"keep", "9"}}))));
    const std::string newest = checkpoints("hurt").back();
    std::string bytes = read_file(newest);
    bytes[bytes.size() * 2 / 3] ^= 1;  // in the middle of the largest tensor
    write_file(newest, bytes);
    const Finished again = launch(1, train("hurt", resumed()));
    ASSERT_EQ("", failure(again));
    EXPECT_NE(again.err.find("warning: " + newest), std::string::npos) << again.err;
    EXPECT_EQ(column(dir_.path("hurt"), "train/loss"), column(dir_.path("whole"), "train/loss"));
    EXPECT_EQ(tensors(dir_.path("hurt") + "/model.h5"), tensors(dir_.path("whole") + "/model.h5"));
    record_fault("the newest checkpoint damaged", "a warning, and the one before is taken",
                 "as promised; the same bits in the end", 1);
}

TEST_F(ResumeFrom, AnOlderCheckpointOfTheSameRun) {
    ASSERT_EQ("", failure(launch(1, train("whole"))));
    ASSERT_EQ("", failure(launch(1, train("run", {{"max-steps", "210"}, {"keep", "9"}}))));
    const std::string older = checkpoints("run").front();
    const Finished f = launch(1, train("run", {{"resume", older}, {"keep", "1"}}));
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.err.find("step-000000000210.h5.old"), std::string::npos) << "what is set aside must be said: " << f.err;
    expect_same("whole", "run");
    EXPECT_TRUE(fs::exists(checkpoint_path(dir_.path("run"), 400))) << "the newest checkpoint must survive";
}

TEST_F(ResumeFrom, AnotherFolderStartsARunOfItsOwn) {
    ASSERT_EQ("", failure(launch(1, train("first", {{"max-steps", "130"}}))));
    const std::string from = checkpoints("first").back();
    const std::string before = read_file(from);
    ASSERT_EQ("", failure(launch(1, train("second", {{"resume", from}, {"max-steps", "140"}}))));
    EXPECT_EQ(column(dir_.path("second"), "train/step").front(), 131);
    EXPECT_EQ(read_file(from), before);
    // A checkpoint from elsewhere does not overwrite a folder that holds a run.
    EXPECT_EQ(
        "", refusal(convoy_alone(train("second", {{"resume", from}})), Exit::usage, {"already holds a run", "second"}));
}

TEST_F(ResumeFrom, RunsThatEndBeforeTheCheckpointAreRefused) {
    ASSERT_EQ("", failure(launch(1, train("run", {{"max-steps", "130"}}))));
    EXPECT_EQ("", refusal(launch(2, train("run", resumed({{"max-steps", "100"}}))), Exit::usage,
                          {"after step 130", "ends at step 100", "--max-steps"}));
    EXPECT_EQ(checkpoints("run").back(), checkpoint_path(dir_.path("run"), 130)) << "a refused run must move nothing";
}

TEST_F(ResumeFrom, CheckpointsWithoutMetricsAreARunToo) {
    ASSERT_EQ("", failure(launch(1, train("run", {{"max-steps", "30"}}))));
    for (const char* file : {"/metrics.h5", "/metrics.jsonl"}) fs::remove(dir_.path("run") + file);
    EXPECT_EQ("", refusal(convoy_alone(train("run")), Exit::usage, {"already holds a run"}));
    write_file(dir_.path("run") + "/checkpoints/step-000000000999.h5.partial", "what a killed run was writing");
    ASSERT_EQ("", failure(launch(1, train("run", resumed({{"max-steps", "40"}})))));
    EXPECT_FALSE(fs::exists(dir_.path("run") + "/checkpoints/step-000000000999.h5.partial"));
}

TEST_F(ResumeFrom, NoFlipOrTruncationOfACheckpointIsSilent) {
    make_data(dir_.path("tiny"), 40, 20, "1x1x10", 1);
    const Options tiny = {{"model", "linear"}, {"data", dir_.path("tiny")}, {"batch-size", "10"}, {"epochs", "1"}};
    ASSERT_EQ("", failure(convoy_alone(train("run", tiny))));
    const std::string path = checkpoints("run").back(), good = read_file(path);
    Options from_file = tiny;
    from_file["resume"] = path;
    uint64_t random = 12345;
    int refused = 0;
    const int files = long_form() ? 250 : 30;
    for (int i = 0; i < files; ++i) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        std::string bad = good;
        if (i % 5 < 4)
            bad[(random >> 20) % bad.size()] ^= char(1 << (random >> 60 & 7));
        else
            bad.resize((random >> 20) % bad.size());
        write_file(path, bad);
        fs::remove_all(dir_.path("again"));
        const Finished f = convoy_alone(train("again", from_file));
        // A flipped bit in bytes that no reader uses is harmless: then the model is the one that
        // was saved.
        if (f.code == 0)
            EXPECT_EQ(tensors(dir_.path("again") + "/model.h5"), tensors(dir_.path("run") + "/model.h5")) << i;
        else
            EXPECT_EQ("", refusal(f, Exit::bad_input, {path})) << i;
        refused += f.code != 0;
    }
    std::printf("%d damaged checkpoints: %d refused, the others read as they were saved\n", files, refused);
    EXPECT_GE(refused, files / 5);
    record_fault("a bit flipped anywhere in a checkpoint (every fifth: cut off instead)",
                 "refused, or read as it was saved; no crash",
                 std::to_string(refused) + " refused, " + std::to_string(files - refused) + " read as saved", files);
}

TEST_F(ResumeFrom, AChangedRunIsRefusedByName) {
    ASSERT_EQ("", failure(launch(1, train("run", {{"max-steps", "4"}}))));
    const auto refused = [&](const Options& change, const std::vector<std::string>& words) {
        EXPECT_EQ("", refusal(convoy_alone(train("run", resumed(change))), Exit::usage, words));
    };
    refused({{"seed", "2"}}, {"seed", "was 1", "has 2"});
    refused({{"optimizer", "adam"}}, {"optimizer", "sgd", "adam"});
    refused({{"batch-size", "64"}}, {"global batch", "20", "64"});
    refused({{"model", "mnist-linear"}}, {"model", "mnist-conv", "mnist-linear"});
    make_data(dir_.path("other"), 340, 60, "28x28x1", 2);
    refused({{"data", dir_.path("other")}}, {"data set"});
    // The rate and the number of epochs may change, and that is recorded.
    const Finished allowed = convoy_alone(train("run", resumed({{"lr", "0.02"}, {"max-steps", "6"}})));
    EXPECT_EQ("", failure(allowed));
    EXPECT_NE(allowed.out.find("lr = 0.01 -> 0.02"), std::string::npos) << allowed.out;
}

TEST_F(ResumeFrom, ASecondRunInTheSameFolderIsRefused) {
    const std::string first = launch_command(1, train("run", {{"epochs", "10000"}})) + " >/dev/null 2>&1";
    const std::string second = launch_command(1, train("run", {{"overwrite", "true"}}));
    const Finished both =
        test::run("(" + first + ") & for i in $(seq 600); do [ -e " + dir_.path("run") +
                  "/metrics.h5 ] && break; sleep 0.02; done\n(" + second +
                  "); code=$?; pkill -KILL -f '^[^ ]*convoy train .*" + dir_.path("run") + "'; wait; exit $code");
    EXPECT_EQ("", refusal(both, Exit::usage, {"another run", dir_.path("run")}));
    record_fault("a second run in a folder where one is running", "refused, exit 2", "as promised", 1);
}

}  // namespace
}  // namespace convoy::test
