// Published trainings beside a run: the shipped file, what convoy report makes of it, and refusals.
#include "report/published_runs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/unit/report_runs.h"

namespace convoy::test {
namespace {

using PublishedRuns = ReportTest;

TEST_F(PublishedRuns, EpochsOfTheShippedFileAreTheirStepsAndSomeTimeBetween) {
    const auto runs = read_published_runs("output/published/pyramidnet-p100.csv");
    ASSERT_EQ(runs.size(), 4u);
    for (const PublishedRun& r : runs) {
        const double steps = std::ceil(double(r.epoch_images) / double(r.global_batch)) * r.step_seconds;
        EXPECT_GE(r.epoch_seconds, steps) << r.source;
        EXPECT_LE(r.epoch_seconds, 1.2 * steps) << r.source << " waits little for data";
    }
    EXPECT_DOUBLE_EQ(runs[0].images_per_second(), 250);
}

// A benchmark stands in for a training: 2 ranks with 32 images each.
TEST_F(PublishedRuns, AreShownBesideARunOfTheSameModelAndImages) {
    const auto write = [&](const std::string& name, const std::string& size, const std::string& classes,
                           const std::string& model) {
        write_bench(dir_.path(name), {2, 32, {0.4}, 0.5, size, "auto", classes, "gpu", model});
    };
    write("mine", "32x32x3", "10", "pyramidnet");
    write("larger", "64x64x3", "10", "pyramidnet");
    write("classes", "32x32x3", "100", "pyramidnet");
    write("model", "32x32x3", "10", "resnet18");
    const std::string text = report("mine").out;
    for (const char* row :
         {"this run                                 1-2            64      400.0       0.50     128.0",
          "data_parallel.py (DataParallel)          1-2            64      170.0        138     362.3", "98 and 99 %"})
        EXPECT_NE(text.find(row), std::string::npos) << row << "\n" << text;
    const std::string page = report("mine --format markdown").out;
    EXPECT_NE(page.find("|    362.3 |        80 % |"), std::string::npos) << page;
    const auto json = nlohmann::json::parse(report("mine --format json").out);
    ASSERT_EQ(json[0]["published"].size(), 4u);
    EXPECT_EQ(json[0]["published"][3]["epoch_seconds"], 67);
    for (const char* other : {"larger", "classes", "model"})
        EXPECT_EQ(report(other).out.find("single_gpu.py"), std::string::npos) << other;
}

TEST_F(PublishedRuns, ADamagedLineIsNamed) {
    const std::string good = "a,m,32x32x3,10,64,1,1,0.2,50000,200,98 %";
    const std::vector<std::string> damaged = {good + ",1", good.substr(0, 30),
                                              "a,m,32x32x3,10,64,1,1,-0.2,50000,200,98 %",
                                              "a,m,32x32x3,10,64,1,one,0.2,50000,200,98 %"};
    for (const std::string& line : damaged) {
        write_file(dir_.path("p.csv"), "# comment\nheader\n" + good + "\n" + line + "\n");
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {"p.csv:4"}, [&] { read_published_runs(dir_.path("p.csv")); }));
    }
}

}  // namespace
}  // namespace convoy::test
