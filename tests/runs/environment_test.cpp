// Where a run ran stands in its metrics, in a benchmark's JSON and in `convoy info`, the same in
// each; and a run of seconds already has rows of /system.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "comm/host.h"
#include "tests/support/cluster.h"
#include "train/metrics.h"

namespace convoy::test {
namespace {

class Environment : public testing::Test {
protected:
    void SetUp() override { make_data(dir_.path("data"), 16, 4, "28x28x1", 1); }
    std::string train(const std::string& options) const {
        return "train --model mnist-linear --batch-size 8 --device cpu --data " + dir_.path("data") + " --output " +
               dir_.path("run") + " " + options;
    }
    TempDir dir_;
};

TEST_F(Environment, IsRecordedEverywhere) {
    ASSERT_EQ("", failure(launch(1, train("--max-steps 1"))));
    const auto run = read_metrics(dir_.path("run") + "/metrics.h5").run;
    const Finished bench =
        convoy_alone("bench --model linear --batch-per-rank 4 --steps 2 --profile-steps 0 --device cpu");
    ASSERT_EQ("", failure(bench));
    const std::string line = bench.out.substr(bench.out.rfind("\n{") + 1);
    const nlohmann::json json = nlohmann::json::parse(line).at("environment");
    const Finished info = convoy_alone("info");
    for (const auto& [name, text] : facts_of_host()) {
        EXPECT_EQ(run.at("environment_" + name), text);
        EXPECT_EQ(json.at(name), text);
        EXPECT_NE(info.out.find("\n" + name + std::string(13 - name.size(), ' ') + text + "\n"), std::string::npos)
            << info.out;
    }
    EXPECT_FALSE(run.contains("environment_gpu"));
}

TEST_F(Environment, ARunOfSecondsHasRowsOfItsSystem) {
    const std::string endless = train("--epochs 1000000 --eval-every 0 --checkpoint-every none");
    const Finished f = sampled(sibling("convoy") + " " + endless, dir_.path("run"), 3);
    ASSERT_EQ(f.code, 85) << f.err;
    const std::vector<double> time = column(dir_.path("run"), "system/time");
    ASSERT_GE(time.size(), 3u);
    EXPECT_LT(time[2] - time[0], 10) << "a row is the mean of one second, not of ten";
    for (const double busy : column(dir_.path("run"), "system/utilisation")) EXPECT_GT(busy, 0);
}

}  // namespace
}  // namespace convoy::test
