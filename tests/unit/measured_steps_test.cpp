// Measured files of steps: the spread of ranks, compared with its formula.
#include "report/measured_steps.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "run/metrics.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// Writes a run whose ranks computed for `compute` seconds. Returns its folder.
std::string run_of(const std::string& folder, const std::vector<double>& compute) {
    std::filesystem::create_directories(folder);
    Metrics m(folder);
    m.run_attribute("model", std::string("resnet18"));
    m.run_attribute("global batch (--batch-size)", std::to_string(32 * compute.size()));
    for (size_t r = 0; r < compute.size(); ++r) {
        m.add(RankRow{.rank = int64_t(r), .host = "node" + std::to_string(r / 2), .device = "CPU"});
        m.add(RankEpochRow{.epoch = 1, .rank = int64_t(r), .compute_seconds = compute[r] / 2});
        m.add(RankEpochRow{.epoch = 2, .rank = int64_t(r), .compute_seconds = compute[r] / 2});
    }
    for (int64_t step = 1; step <= 4; ++step) m.add(TrainRow{.step = step, .epoch = 1, .step_seconds = 0.25});
    m.publish();
    return folder;
}

TEST(MeasuredSteps, OfARunHaveTheSpreadOfItsRanks) {
    const TempDir dir;
    const MeasuredFile file = read_measured_steps(run_of(dir.path("four"), {8, 10, 10, 12}), "resnet18");
    ASSERT_EQ(file.steps.size(), 1u);
    const MeasuredStep& s = file.steps[0];
    EXPECT_EQ(s.nodes, 2);
    EXPECT_EQ(s.ranks, 4);
    EXPECT_EQ(s.batch, 32);
    EXPECT_DOUBLE_EQ(s.seconds, 0.25);
    EXPECT_NEAR(s.spread, std::sqrt((4 + 0 + 0 + 4) / 3.0) / 10, 1e-12) << "of a sample";
    EXPECT_NEAR(read_measured_steps(run_of(dir.path("two"), {9, 11}), "resnet18").steps[0].spread, std::sqrt(2.0) / 10,
                1e-12);
    EXPECT_TRUE(std::isnan(read_measured_steps(run_of(dir.path("one"), {9}), "resnet18").steps[0].spread));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"four", "resnet18", "not resnet50"},
                                   [&] { read_measured_steps(dir.path("four"), "resnet50"); }));
}

TEST(MeasuredSteps, ATableOfAnotherModelIsRefused) {
    const TempDir dir;
    write_file(dir.path("table.csv"), "model,nodes,gpus,batch_per_gpu,images_per_s\nresnet50,1,8,32,512\n");
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"table.csv:2", "resnet50", "not resnet18"},
                                   [&] { read_measured_steps(dir.path("table.csv"), "resnet18"); }));
    EXPECT_EQ(read_measured_steps(dir.path("table.csv"), "resnet50").steps.size(), 1u);
}

TEST(MeasuredSteps, APredictionIsNoMeasurement) {
    const TempDir dir;
    const std::string header = "source,nodes,gpus,batch_per_gpu,images_per_s\n";
    const auto read = [&](const std::string& row) {
        write_file(dir.path("table.csv"), header + row + "\n");
        return read_measured_steps(dir.path("table.csv"), "resnet18").steps.at(0);
    };
    EXPECT_DOUBLE_EQ(read("measured,2,8,32,512").seconds, 0.5);
    EXPECT_EQ(read("measured,2,8,32,512").ranks, 8);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"table.csv:2", "is a prediction"},
                                   [&] { read("predicted,2,8,32,512"); }));
    for (const char* row : {"measured,3,8,32,512", "measured,2,1,32,512", "measured,2,8,0,512", "measured,2,8,32,0"})
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {"table.csv:2", "whole numbers"}, [&] { read(row); })) << row;
}

}  // namespace
}  // namespace convoy::test
