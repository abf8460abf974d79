// bench --log-format tf-cnn and horovod: lines for made-up times compared with those that the
// scripts' own functions gave for them, and runs read as harnesses read these scripts.
#include "bench/step_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <sstream>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

BenchResult result_of(const char* device_kind) {
    BenchResult r;
    r.model = "resnet50";
    r.data = "synthetic";
    r.image_size = "224x224x3";
    r.device_kind = device_kind;
    r.ranks = 4;
    r.batch_per_rank = 32;
    r.global_batch = 128;
    r.images_per_second_wall = 8123.456;
    return r;
}

/// Returns steps of 10 to 20 ms with a falling loss.
std::vector<TrainRow> made_up_steps(int count) {
    std::vector<TrainRow> steps;
    for (int i = 0; i < count; ++i)
        steps.push_back({.step = i + 1, .loss = 2.5 - 0.125 * i / 3, .step_seconds = 1e-3 * (10 + 7 * i % 11)});
    return steps;
}

bool ends(const std::string& text, const std::string& with) {
    return text.size() >= with.size() && text.substr(text.size() - with.size()) == with;
}

// The step lines are the output of get_perf_timing() and get_perf_timing_str() of tf_cnn_benchmarks
// for these times, with NumPy 2.4.
TEST(StepLines, OfTfCnnAreThoseOfItsFunctions) {
    const std::string text = tf_cnn_text(result_of("gpu"), made_up_steps(25)), rule(64, '-');
    EXPECT_EQ(text.find("Model:       resnet50\nDataset:     224x224x3 (synthetic)\nMode:        training\n"
                        "Batch size:  128 global\n             32 per device\nNum batches: 25\n==========\n"),
              0u)
        << text;
    EXPECT_TRUE(ends(text,
                     "Step\tImg/sec\tbase_loss\n"
                     "1\timages/sec: 3200.0 +/- 0.0 (jitter = 0.0)\t2.500\n"
                     "10\timages/sec: 2119.2 +/- 165.2 (jitter = 576.2)\t2.125\n"
                     "20\timages/sec: 2147.7 +/- 114.5 (jitter = 596.5)\t1.708\n" +
                         rule + "\ntotal images/sec: 8123.46\n" + rule + "\n"))
        << text;
}

TEST(StepLines, ALossThatIsNotANumberHasNoSign) {
    std::vector<TrainRow> steps = made_up_steps(1);
    steps[0].loss = -NAN;
    EXPECT_NE(tf_cnn_text(result_of("cpu"), steps).find(")\tnan\n"), std::string::npos);
}

// The figures are what the last lines of Horovod's pytorch_synthetic_benchmark.py compute from
// these times, with NumPy 2.4.
TEST(StepLines, OfHorovodAreThoseOfItsScript) {
    EXPECT_EQ(horovod_text(result_of("cpu"), made_up_steps(20)),
              "Model: resnet50\nBatch size: 32\nNumber of CPUs: 4\nRunning warmup...\nRunning benchmark...\n"
              "Iter #0: 2119.2 img/sec per CPU\nIter #1: 2176.9 img/sec per CPU\n"
              "Img/sec per CPU: 2148.0 +-56.5\nTotal img/sec on 4 CPU(s): 8592.2 +-226.0\n");
    EXPECT_TRUE(ends(horovod_text(result_of("gpu"), made_up_steps(20)),
                     "Img/sec per GPU: 2148.0 +-56.5\nTotal img/sec on 4 GPU(s): 8592.2 +-226.0\n"));
}

/// Returns the groups of the only match; empty, and a failure, otherwise.
std::vector<double> numbers(const std::string& out, const std::string& pattern) {
    const std::regex regex(pattern, std::regex::ECMAScript | std::regex::multiline);
    const auto first = std::sregex_iterator(out.begin(), out.end(), regex);
    EXPECT_EQ(std::distance(first, std::sregex_iterator()), 1) << pattern << "\n" << out;
    if (first == std::sregex_iterator()) return {};
    std::vector<double> found;
    for (size_t group = 1; group < first->size(); ++group) found.push_back(std::stod(first->str(group)));
    return found;
}

nlohmann::json last_line(const std::string& out) {
    return nlohmann::json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1));
}

/// The formulas once more, from sums of powers.
struct Statistics {
    double mean, deviation;
    explicit Statistics(const std::vector<double>& v) {
        const double n = double(v.size()), squares = std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
        mean = std::accumulate(v.begin(), v.end(), 0.0) / n;
        deviation = std::sqrt(std::max(0.0, squares / n - mean * mean));
    }
};

double middle(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

double tolerance(double value) { return 0.051 + 1e-6 * value; }  // one decimal is printed

TEST(StepLines, ATfCnnRunIsReadByItsReaders) {
    const TempDir dir;
    const Finished f = launch(2,
                              "bench --model mnist-linear --batch-per-rank 8 --warmup 2 --steps 20 --profile-steps 0 "
                              "--threads 1 --log-format tf-cnn --output " +
                                  dir.path("run"),
                              120);
    ASSERT_EQ("", failure(f));
    const std::vector<double> seconds = column(dir.path("run"), "train/step_seconds"),
                              losses = column(dir.path("run"), "train/loss");
    ASSERT_EQ(seconds.size(), 20u);
    for (const size_t n : {1, 10, 20}) {
        std::vector<double> rates, off;
        for (size_t i = 0; i < n; ++i) rates.push_back(8 / seconds[i]);
        for (const double rate : rates) off.push_back(std::fabs(rate - middle(rates)));
        const double all = std::accumulate(seconds.begin(), seconds.begin() + long(n), 0.0);
        const std::vector<double> line =
            numbers(f.out, "^" + std::to_string(n) +
                               R"(\s+images/sec: (\d+\.\d) \+/- (\d+\.\d) \(jitter = (\d+\.\d)\)\s(\d+\.\d{3})$)");
        ASSERT_EQ(line.size(), 4u);
        const double uncertainty = Statistics(rates).deviation / std::sqrt(double(n)), jitter = 1.4826 * middle(off);
        EXPECT_NEAR(line[0], 8 * double(n) / all, tolerance(line[0]));
        EXPECT_NEAR(line[1], uncertainty, tolerance(line[0]));
        EXPECT_NEAR(line[2], jitter, tolerance(line[0]));
        EXPECT_NEAR(line[3], losses[n - 1], 0.00051);
    }
    const double wall = last_line(f.out).at("images_per_second").at("wall");
    EXPECT_NEAR(numbers(f.out, R"(^total images/sec: (\d+\.\d\d)$)").at(0), wall, 0.0051) << "of both ranks";
    EXPECT_EQ(count(f.out, "images/s  "), 0) << "in place of our own table";
}

TEST(StepLines, AHorovodRunIsReadByItsReaders) {
    const TempDir dir;
    const Finished f = launch(3,
                              "bench --model mnist-linear --batch-per-rank 8 --warmup 2 --steps 30 --profile-steps 0 "
                              "--threads 1 --log-format horovod --output " +
                                  dir.path("run"),
                              120);
    ASSERT_EQ("", failure(f));
    const std::vector<double> seconds = column(dir.path("run"), "train/step_seconds");
    ASSERT_EQ(seconds.size(), 30u);
    std::vector<double> rates;
    for (int i = 0; i < 3; ++i) {
        rates.push_back(80 / std::accumulate(seconds.begin() + 10 * i, seconds.begin() + 10 * (i + 1), 0.0));
        EXPECT_NEAR(numbers(f.out, "^Iter #" + std::to_string(i) + R"(: (\S+) img/sec per CPU$)").at(0), rates[i],
                    tolerance(rates[i]));
    }
    const Statistics s(rates);
    const std::vector<double> each = numbers(f.out, R"(^Img/sec per CPU:\s+(\d+\.\d) \+-(\d+\.\d)$)"),
                              total = numbers(f.out, R"(^Total img/sec on 3 .PU\(s\):\s+(\d+\.\d) \+-(\d+\.\d)$)");
    EXPECT_NEAR(each.at(0), s.mean, tolerance(s.mean));
    EXPECT_NEAR(each.at(1), 1.96 * s.deviation, tolerance(s.mean));
    EXPECT_NEAR(total.at(0), 3 * s.mean, tolerance(3 * s.mean));
    EXPECT_NEAR(total.at(1), 3 * 1.96 * s.deviation, tolerance(3 * s.mean));
    EXPECT_EQ(numbers(f.out, R"(Total img/sec on 3 CPU\(s\): (\S+) \S+)").at(0), total.at(0));
    EXPECT_EQ(count(f.out, "Model: mnist-linear\nBatch size: 8\nNumber of CPUs: 3\n"), 1);
    EXPECT_EQ(last_line(f.out).at("ranks"), 3);
}

TEST(StepLines, FormatsOfATrainingStandInRecipesOnly) {
    const TempDir dir;
    const std::string few = "bench --model mnist-linear --batch-per-rank 4 --warmup 0 --profile-steps 0 --steps ";
    EXPECT_EQ("", refusal(convoy_alone(few + "1 --log-format imagenet"), Exit::usage, {"tf-cnn", "horovod"}));
    EXPECT_EQ("", refusal(convoy_alone(few + "25 --log-format horovod"), Exit::usage, {"--steps 25", "10"}));
    write_file(dir.path("train.cfg"), "log-format = imagenet\n");
    const Finished plain = convoy_alone(few + "1 --config " + dir.path("train.cfg"));
    EXPECT_EQ("", failure(plain));
    EXPECT_EQ(count(plain.out, "images/s  "), 1) << plain.out;
    write_file(dir.path("bench.cfg"), "log-format = tf-cnn\n");
    const Finished lines = convoy_alone(few + "1 --config " + dir.path("bench.cfg"));
    EXPECT_EQ("", failure(lines));
    EXPECT_EQ(count(lines.out, "total images/sec: "), 1) << lines.out;
    EXPECT_EQ("", refusal(convoy_alone("train --data x --batch-size 4 --log-format tf-cnn"), Exit::usage,
                          {"--log-format", "imagenet"}));
}

}  // namespace
}  // namespace convoy::test
