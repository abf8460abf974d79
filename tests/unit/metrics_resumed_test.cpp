// The metric files of runs that are resumed or go back to a checkpoint.
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

using MetricsResumed = MetricsFolder;

TEST_F(MetricsResumed, AResumedRunKeepsTheRowsBeforeItsCheckpoint) {
    {
        Metrics metrics(dir);
        fill(metrics);
        metrics.publish();
        std::ofstream(dir + "/metrics.jsonl", std::ios::app) << "{\"half a l";
    }
    std::string message;
    EXPECT_EQ(code_of([&] { Metrics another(dir); }, &message), Exit::usage);
    EXPECT_NE(message.find(h5()), std::string::npos);

    Metrics metrics(dir, MetricsResume{.step = 10, .epochs_done = 1});
    metrics.add(train_row(11));
    metrics.publish();
    EXPECT_EQ(integers(h5(), "train/step"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
    EXPECT_EQ(doubles(h5(), "train/loss").at(3), 0.5);
    EXPECT_EQ(integers(h5(), "eval/step"), std::vector<int64_t>{10});
    EXPECT_EQ(integers(h5(), "epochs/epoch"), std::vector<int64_t>{1});
    EXPECT_EQ(integers(h5(), "rank_epochs/epoch"), (std::vector<int64_t>{1, 1}));
    EXPECT_TRUE(integers(h5(), "ranks/rank").empty());
    EXPECT_EQ(texts(h5(), "events/kind"), (std::vector<std::string>{"checkpoint", "warning"}));
    std::ifstream file(dir + "/metrics.jsonl");
    std::string last;
    for (std::string line; std::getline(file, line);) last = line;
    EXPECT_EQ(nlohmann::json::parse(last)["step"], 11) << "a torn line is closed before the next";
}

// A run may stop, or go back, between the last step of an epoch and its evaluation. It then repeats
// the evaluation.
TEST_F(MetricsResumed, ADueEvaluationIsNotThereTwice) {
    {
        Metrics metrics(dir);
        fill(metrics);
        metrics.publish();
    }
    const MetricsResume before_evaluation{.step = 20, .epochs_done = 2, .evaluation_due = true};
    MetricsResume after_evaluation = before_evaluation;
    after_evaluation.evaluation_due = false;
    Metrics metrics(dir, after_evaluation);
    metrics.publish();
    EXPECT_EQ(integers(h5(), "eval/step"), (std::vector<int64_t>{10, 20}));
    metrics.go_back(before_evaluation);
    metrics.add(EvalRow{20, 2, 1.25, 0.7, 0.1});
    metrics.publish();
    EXPECT_EQ(integers(h5(), "eval/step"), (std::vector<int64_t>{10, 20}));
    EXPECT_EQ(doubles(h5(), "eval/accuracy"), (std::vector<double>{0.4, 0.7}));
    EXPECT_EQ(integers(h5(), "train/step").back(), 20);
    EXPECT_EQ(integers(h5(), "epochs/epoch"), (std::vector<int64_t>{1, 2}));

    Metrics again(dir, before_evaluation);
    again.publish();
    EXPECT_EQ(integers(h5(), "eval/step"), std::vector<int64_t>{10});
}

TEST_F(MetricsResumed, ADamagedFileIsNotGoneOnWith) {
    {
        Metrics metrics(dir);
    }
    fs::resize_file(h5(), fs::file_size(h5()) / 2);
    EXPECT_EQ(code_of([&] { Metrics metrics(dir, MetricsResume{}); }), Exit::bad_input);
}

// If a run goes back before a line is written, that line is dropped, and no later line is left out.
TEST_F(MetricsResumed, LinesFollowARunThatGoesBack) {
    Metrics metrics(dir);
    for (int64_t step = 1; step <= 9000; ++step) metrics.add(train_row(step));
    metrics.write_lines();
    metrics.go_back({.step = 4500, .epochs_done = 0});
    for (int64_t step = 4501; step <= 4600; ++step) metrics.add(train_row(step));
    metrics.publish();
    const std::vector<int64_t> steps = integers(h5(), "train/step");
    ASSERT_EQ(steps.size(), 4600u);
    for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], int64_t(i) + 1);
    const std::vector<nlohmann::json> lines = json_lines(dir);
    ASSERT_EQ(lines.size(), 9100u);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(lines[9000 + i]["step"], 4501 + i);
}

}  // namespace
}  // namespace convoy::test
