// Shared by tests of reports: small runs like those of trainings and benchmarks, and golden files.
// CONVOY_WRITE_GOLDEN=1 rewrites the golden files; review them before you commit.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

#include "run/metrics.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace fs = std::filesystem;

/// Writes a training of two epochs on two ranks, of which the second is slow.
inline void write_training(const std::string& dir) {
    fs::create_directories(dir);
    Metrics m(dir);
    m.run_attribute("model", std::string("mnist-conv"));
    m.run_attribute("image size", std::string("28x28x1"));
    m.run_attribute("global batch (--batch-size)", std::string("60"));
    m.run_attribute("configuration", std::string("model = mnist-conv\nprecision = f32\n"));
    m.event(0, "start", "convoy train --data a|b");
    for (int r = 0; r < 2; ++r) m.add(RankRow{r, "node" + std::to_string(r), "CPU", 4, "", r});
    m.add(TrainRow{1, 1, 2.3, 0.1, 0.1, 5.0, 0.1, 0.1});  // includes one-time costs
    m.add(TrainRow{2, 1, 2.0, 0.3, 0.1, 0.02, 0.001, 0.004});
    m.add(TrainRow{3, 2, 1.5, 0.5, 0.1, 0.03, 0.002, 0.005});
    m.add(TrainRow{4, 2, 1.2, 0.6, 0.1, 0.04, 0.003, 0.006});
    m.add(EpochRow{1, 120, 5.25, 22.9});
    m.add(EpochRow{2, 120, 0.25, 480.0});
    for (int epoch = 1; epoch <= 2; ++epoch) {
        m.add(RankEpochRow{epoch, 0, 0.25, 1.0, 1.5});
        m.add(RankEpochRow{epoch, 1, 0.25, 2.0, 0.5});
    }
    // seconds 99 to 101, and a row that is the mean of ten seconds; nothing is known of rank 1
    m.add(SystemRow{.time = 100, .rank = 0, .utilisation = 0.5, .temperature_celsius = 60});
    m.add(SystemRow{.time = 101, .rank = 0, .utilisation = 0.5, .temperature_celsius = 64});
    m.add(SystemRow{.time = 111, .rank = 0, .utilisation = 0.875, .temperature_celsius = 61});
    m.add(EvalRow{2, 1, 1.9, 0.75, 0.5});
    m.add(EvalRow{4, 2, 2.1, 0.625, 0.5});
    m.event(4, "done", "test accuracy 0.6250");
    m.publish();
}

/// A benchmark: seconds of its steps, and `wall` seconds including the time between them.
struct Cell {
    int ranks, batch;
    std::vector<double> seconds;
    double wall;
    std::string image_size = "224x224x3", stem = "auto", classes = "1000", device_kind = "gpu", model = "resnet50",
                more = "";
};

/// Writes a benchmark like convoy bench, on hosts of eight ranks.
inline void write_bench(const std::string& dir, const Cell& c) {
    fs::create_directories(dir);
    Metrics m(dir);
    m.run_attribute("model", c.model);
    m.run_attribute("image size", c.image_size);
    m.run_attribute("number of classes", c.classes);
    m.run_attribute("device kind", c.device_kind);
    m.run_attribute("global batch (--batch-size)", std::to_string(c.ranks * c.batch));
    m.run_attribute("configuration", "precision = bf16\nstem = " + c.stem + "\n" + c.more);
    m.run_attribute("bench", std::string("{}"));
    for (int r = 0; r < c.ranks; ++r)
        m.add(RankRow{r, "node" + std::to_string(r / 8), c.device_kind == "gpu" ? "GPU" : "CPU", 1});
    for (size_t i = 0; i < c.seconds.size(); ++i) m.add(TrainRow{int64_t(21 + i), 1, 1, 0, 0.1, c.seconds[i], 0, 0});
    const int64_t images = int64_t(c.seconds.size()) * c.ranks * c.batch;
    m.add(EpochRow{1, images, c.wall, double(images) / c.wall});
    m.publish();
}

class ReportTest : public testing::Test {
protected:
    /// Runs the report in the folder of the runs, so that it holds no path of this machine.
    Finished report(const std::string& arguments) {
        return run("cd " + dir_.path() + " && " + with_limit(sibling("convoy") + " report " + arguments, 60));
    }
    void expect_golden(const std::string& name, const std::string& arguments) {
        const Finished f = report(arguments);
        ASSERT_EQ("", failure(f)) << arguments;
        EXPECT_EQ(f.err, "") << arguments;
        const std::string said = std::regex_replace(f.out, std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ"),
                                                    "2026-01-31T12:00:00Z"),
                          path = "tests/golden/report/" + name;
        if (std::getenv("CONVOY_WRITE_GOLDEN")) write_file(path, said);
        EXPECT_EQ(said, read_file(path)) << arguments;
    }
    /// Writes 1, 2, 8 and 16 GPUs at batch 128, with three repeats of the first. At batch 256 it
    /// writes one cell that ran, and two that ran out of memory, one of them with details.
    void write_matrix() {
        for (int repeat = 1; repeat <= 3; ++repeat)
            write_bench(dir_.path("m/1n1g-b128-r" + std::to_string(repeat)),
                        {1, 128, {0.4, 0.4, 0.5}, 1.2 * repeat});  // 320, 160, 106.7
        write_bench(dir_.path("m/1n2g-b128-r1"), {2, 128, {0.5}, 0.8});
        write_bench(dir_.path("m/1n8g-b128-r1"), {8, 128, {0.9}, 1.0});
        write_bench(dir_.path("m/2n16g-b128-r1"), {16, 128, {0.9}, 1.0});
        write_bench(dir_.path("m/1n1g-b256-r1"), {1, 256, {0.9}, 1.0});
        fs::create_directories(dir_.path("m/1n2g-b256-r1"));
        write_file(dir_.path("m/1n2g-b256-r1/oom"), "");
        fs::create_directories(dir_.path("m/1n4g-b256-r1"));
        write_file(
            dir_.path("m/1n4g-b256-r1/oom"),
            R"({"model":"resnet50","precision":"bf16","ranks":4,"hosts":1,"batch_per_rank":256,"message":"out of memory: 9 MiB"})");
    }
    TempDir dir_;
};

}  // namespace convoy::test
