// convoy comm-test with --json and --cluster: the file read by Python, and expected times compared
// with a formula and a table that the test made. No measured time is checked.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

constexpr double mib = 1 << 20;

struct Row {
    double microseconds, expected = NAN, ratio = NAN;
};
/// Returns the printed table by bytes.
std::map<size_t, Row> rows_of(const std::string& out) {
    std::map<size_t, Row> rows;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);) {
        size_t bytes;
        Row row;
        if (std::sscanf(line.c_str(), "%zu %*u float sum %lf %*f %*f %*d %lf %lf", &bytes, &row.microseconds,
                        &row.expected, &row.ratio) >= 2)
            rows[bytes] = row;
    }
    return rows;
}

/// Writes a cluster of one node, with a table of `ranks` ranks on it: (bytes, seconds).
std::string cluster_with(const TempDir& dir, int ranks, const std::vector<std::pair<double, double>>& sizes) {
    std::string table = formatted(R"({"all_reduce":{"ranks":%d,"hosts":1,"ranks_per_host":%d,"sizes":[)", ranks, ranks);
    for (size_t i = 0; i < sizes.size(); ++i)
        table += formatted(R"(%s{"bytes":%.0f,"seconds":%.9g})", i ? "," : "", sizes[i].first, sizes[i].second);
    write_file(dir.path("table.json"), table + "]}}");
    write_file(dir.path("mine.cluster"),
               formatted("nodes = 1\ngpus-per-node = %d\nnode-bandwidth = 20\nall-reduce-table = table.json\n", ranks));
    return dir.path("mine.cluster");
}

class CommTestExpectedOnRanks : public testing::TestWithParam<int> {};

// Between two sizes of the table the time is a power of the size. Beyond them it has the bandwidth,
// or the latency, of the last size.
TEST_P(CommTestExpectedOnRanks, TimesAreThoseOfTheTable) {
    const TempDir dir;
    const std::string cluster = cluster_with(dir, GetParam(), {{1 * mib, 1e-3}, {4 * mib, 2e-3}, {16 * mib, 10e-3}});
    const Finished f =
        launch(GetParam(), "comm-test --device cpu --bytes 512K..32M --iterations 2 --cluster " + cluster);
    ASSERT_EQ("", failure(f));
    const std::map<size_t, Row> rows = rows_of(f.out);
    ASSERT_EQ(rows.size(), 7u) << f.out;
    const std::map<double, double> wanted = {
        {0.5, 1e3}, {1, 1e3}, {2, 1e3 * std::sqrt(2)}, {4, 2e3}, {8, std::sqrt(2e7)}, {16, 10e3}, {32, 20e3}};
    for (const auto& [size, microseconds] : wanted) {
        const Row& row = rows.at(size_t(size * mib));
        EXPECT_NEAR(row.expected, microseconds, 0.006) << size << ": two places are printed";
        EXPECT_NEAR(row.ratio, row.expected / row.microseconds, 0.0006 + 1e-4 * row.ratio) << size;
    }
}

INSTANTIATE_TEST_SUITE_P(All, CommTestExpectedOnRanks, testing::Values(2, 4));

// No machine sums that slowly or that fast.
TEST(CommTestExpected, TheVerdictFollowsTheRatio) {
    const TempDir dir;
    const std::string run = "comm-test --device cpu --bytes 8M --iterations 1 --cluster ";
    const Finished slower = launch(2, run + cluster_with(dir, 2, {{8 * mib, 1e-7}}));
    ASSERT_EQ("", failure(slower));
    EXPECT_EQ(count(slower.out, "# slower than expected: median ratio 0.00 at 8 MiB and more; usual causes: "), 1)
        << slower.out;
    const Finished faster = launch(2, run + cluster_with(dir, 2, {{8 * mib, 1e3}}));
    ASSERT_EQ("", failure(faster));
    EXPECT_EQ(count(faster.out, "# as expected"), 1) << faster.out;
}

TEST(CommTestExpected, TheModelOfNcclSaysNothingOfMpi) {
    const Finished f = launch(2, "comm-test --device cpu --bytes 4K..8K --cluster jobs/site/dgx-a100.cluster");
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(count(f.out, "the model is NCCL's and does not apply to sums by MPI"), 1) << f.out;
    EXPECT_EQ(count(f.out, "  -        -\n"), 2) << f.out;
}

TEST(CommTestExpected, JsonIsWhatWasPrintedAndIsAClustersTable) {
    const TempDir dir;
    const std::string json = dir.path("new/table.json");
    write_file(json + ".partial", "mine");
    const Finished f = launch(4, "comm-test --device cpu --bytes 256K..1M --iterations 3 --json " + json);
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(read_file(json + ".partial"), "mine");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path("new")), {}), 2);
    const Finished read = run("python3 -c 'import json; j = json.load(open(\"" + json + R"PY("))
t = j["all_reduce"]
print(t["ranks"], t["hosts"], t["ranks_per_host"], t["device_kind"], t["transport"], bool(t["device"]))
print("mpi" in j["versions"], "cpu" in j["environment"], j["version"] != "")
for s in t["sizes"]:
    assert abs(s["algorithm_bandwidth"] * s["seconds"] / s["bytes"] - 1) < 1e-12
    assert abs(s["bus_bandwidth"] / s["algorithm_bandwidth"] - 1.5) < 1e-12
    print(s["bytes"], "%.2f" % (1e6 * s["seconds"]))
')PY");
    ASSERT_EQ(read.code, 0) << read.err;
    std::string wanted = "4 1 4 cpu MPI True\nTrue True True\n";
    bool falls = false;
    double before = 0;
    const std::map<size_t, Row> rows = rows_of(f.out);
    for (const auto& [bytes, row] : rows) {
        wanted += formatted("%zu %.2f\n", bytes, row.microseconds);
        falls = falls || row.microseconds < before;
        before = row.microseconds;
    }
    EXPECT_EQ(rows.size(), 3u);
    EXPECT_EQ(read.out, wanted);
    EXPECT_EQ(count(f.out, "bytes took longer than"), falls) << f.out;

    write_file(dir.path("new/mine.cluster"),
               "nodes = 1\ngpus-per-node = 4\nnode-bandwidth = 20\nall-reduce-table = table.json\n");
    const Finished again =
        launch(4, "comm-test --device cpu --bytes 256K..1M --iterations 1 --cluster " + dir.path("new/mine.cluster"));
    if (falls) {
        EXPECT_EQ("", refusal(again, Exit::bad_input, {"table.json: is not monotonic"}));
        return;
    }
    ASSERT_EQ("", failure(again));
    for (const auto& [bytes, row] : rows_of(again.out))
        EXPECT_NEAR(row.expected, rows.at(bytes).microseconds, 0.011) << bytes;
}

TEST(CommTestExpected, MistakesAreRefusedBeforeAnythingIsMeasured) {
    const TempDir dir;
    write_file(dir.path("bad.cluster"), "nodes = 1\ngpus-per-node = x\n");
    write_file(dir.path("file"), "");
    const std::string small = cluster_with(dir, 2, {{8 * mib, 1}}), json = dir.path("x.json");
    const auto refused = [&](int ranks, const std::string& arguments, Exit code,
                             const std::vector<std::string>& words) {
        const Finished f = launch(ranks, "comm-test --device cpu " + arguments);
        EXPECT_EQ("", refusal(f, code, words)) << arguments;
        EXPECT_TRUE(rows_of(f.out).empty()) << arguments;
    };
    refused(2, "--json " + json, Exit::usage, {"--json", "--bytes"});
    refused(2, "--cluster " + small, Exit::usage, {"--cluster", "--bytes"});
    refused(1, "--bytes 4 --json " + json, Exit::usage, {"--json", "one rank"});
    refused(1, "--bytes 4 --cluster " + small, Exit::usage, {"--cluster", "one rank"});
    refused(3, "--bytes 4 --cluster " + small, Exit::usage, {"mine.cluster", "gpus-per-node = 2", "3 ranks on 1 host"});
    refused(2, "--bytes 4 --cluster " + dir.path("bad.cluster"), Exit::bad_input, {"bad.cluster:2: ", "gpus-per-node"});
    refused(2, "--bytes 4 --json " + dir.path("file/x.json"), Exit::io, {"file/x.json", "cannot be written"});
    EXPECT_FALSE(std::filesystem::exists(json));
}

}  // namespace
}  // namespace convoy::test
