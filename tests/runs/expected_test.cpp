// Results that bench and report --scaling expect of a cluster. They are compared with the terms of
// the formula that remain when all-reduces take almost no time.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tests/support/cluster.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using Json = nlohmann::json;

class Expected : public ::testing::Test {
protected:
    Expected() {
        write_cluster("fast", 1e-7);
        write_cluster("slow", 0.05);
    }
    /// Writes a cluster in which every all-reduce of two ranks takes `seconds`.
    void write_cluster(const std::string& name, double seconds) const {
        write_file(path(name + ".json"),
                   formatted(R"({"all_reduce": {"ranks": 2, "hosts": 1, "ranks_per_host": 2, "sizes": [)"
                             R"({"bytes": 4, "seconds": %g}, {"bytes": 1073741824, "seconds": %g}]}})",
                             seconds, seconds * 1.0001));
        write_file(path(name + ".cluster"), "nodes = 1\ngpus-per-node = 8\nlink = pcie\nnode-bandwidth = 100\n" +
                                                std::string("all-reduce-table = ") + name + ".json\n");
    }
    std::string path(const std::string& name) const { return dir_.path(name); }
    Finished bench(int ranks, const std::string& more) const {
        return run(launch_command(ranks,
                                  "bench --model mnist-conv --device cpu --threads 1 --batch-per-rank 64 --steps 6 "
                                  "--warmup 1 --profile-steps 0 " +
                                      more));
    }
    static Json last_line(const std::string& text) {
        const size_t end = text.find_last_not_of('\n');
        return Json::parse(text.substr(text.rfind('\n', end) + 1), nullptr, false);
    }

private:
    TempDir dir_;
};

// The slower of two ranks takes Blom's Phi^-1(1.625 / 2.25) = 0.5895 standard deviations of 1 %
// longer.
constexpr double largest_of_two = 0.5895, spread = 0.01;

TEST_F(Expected, OfABenchmarkIsItsOwnComputeTime) {
    const Finished f = bench(2, "--cluster " + path("fast.cluster"));
    ASSERT_EQ("", failure(f));
    const Json j = last_line(f.out);
    const double compute = j.at("compute_seconds"), data = j.at("data_seconds"),
                 rate = j.at("expected").at("images_per_second");
    EXPECT_NEAR(rate, 2 * 64 / (compute * (1 + spread * largest_of_two) + data), 1e-3 * rate);
    EXPECT_EQ(j["expected"]["limit"], "compute");
    EXPECT_NE(f.out.find("images/s by the cluster file, limited by compute: measured is "), std::string::npos) << f.out;
}

// One all-reduce runs after the whole backward pass.
TEST_F(Expected, OfABenchmarkHasItsExposedSums) {
    const Finished f = bench(2, "--bucket-mib 4096 --cluster " + path("slow.cluster"));
    ASSERT_EQ("", failure(f));
    const Json j = last_line(f.out);
    const double alone = j.at("compute_seconds").get<double>() + j.at("data_seconds").get<double>(),
                 rate = j.at("expected").at("images_per_second");
    EXPECT_NEAR(rate, 2 * 64 / (alone * (1 + spread * largest_of_two) + 0.05), 1e-3 * rate);
    EXPECT_EQ(j["expected"]["limit"], alone > 0.05 ? "compute" : "communication");
}

// NCCL's constants do not apply to MPI.
TEST_F(Expected, IsLeftOutOnCpusWithoutMeasuredAllReduces) {
    write_file(path("nccl.cluster"), "nodes = 1\ngpus-per-node = 8\nnode-bandwidth = 100\n");
    const Finished f = bench(2, "--output " + path("r2") + " --cluster " + path("nccl.cluster"));
    ASSERT_EQ("", failure(f));
    EXPECT_FALSE(last_line(f.out).contains("expected"));
    EXPECT_NE(f.err.find("nccl.cluster has no all-reduce-table"), std::string::npos) << f.err;
    ASSERT_EQ("", failure(bench(1, "--output " + path("r1"))));
    const Finished table = run(sibling("convoy") + " report --scaling " + path("r1") + " " + path("r2") +
                               " --cluster " + path("nccl.cluster"));
    EXPECT_EQ(table.out.find("expected"), std::string::npos) << table.out;
}

TEST_F(Expected, IsLeftOutWithoutACluster) {
    const Finished f = bench(1, "");
    ASSERT_EQ("", failure(f));
    EXPECT_FALSE(last_line(f.out).contains("expected"));
}

TEST_F(Expected, OfAScalingTableIsByTheFewestRanks) {
    for (const int ranks : {1, 2, 4})
        ASSERT_EQ("", failure(bench(ranks, "--output " + path("r" + std::to_string(ranks)))));
    const std::string report =
        sibling("convoy") + " report --scaling " + path("r1") + " " + path("r2") + " " + path("r4");
    const Finished f = run(report + " --format json --cluster " + path("fast.cluster"));
    ASSERT_EQ("", failure(f));
    const Json j = Json::parse(f.out);
    ASSERT_EQ(j.size(), 3u);
    EXPECT_TRUE(j[0]["expected_samples_per_second"].is_null());  // the others are expected from this one
    const double one = j[0]["samples_per_second"];
    for (const auto& [at, ranks, largest] : {std::tuple{1, 2, largest_of_two}, {2, 4, 1.0491}}) {
        const double expected = j[at]["expected_samples_per_second"], loss = 1 + 0.06 * (ranks - 1) / 7.0;
        EXPECT_NEAR(expected, ranks * one / (loss * (1 + spread * largest)), 1e-3 * expected);
    }
    const Finished text = run(report + " --cluster " + path("fast.cluster"));
    EXPECT_NE(text.out.find("expected"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("limited by"), std::string::npos) << text.out;
    const Finished without = run(report);
    EXPECT_EQ(without.out.find("expected"), std::string::npos) << without.out;
}

TEST_F(Expected, RefusesWhatCannotBe) {
    EXPECT_EQ("", refusal(run(sibling("convoy") + " report x --cluster " + path("fast.cluster")), Exit::usage,
                          {"--cluster", "--scaling"}));
    EXPECT_EQ("", refusal(bench(2, "--cluster " + path("none")), Exit::bad_input, {"none"}));
}

}  // namespace
}  // namespace convoy::test
