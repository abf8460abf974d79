// comm-test --log-format nccl-tests: lines compared with those that all_reduce_perf's own formats
// give for the same numbers, and a run read by the rules of programs that read all_reduce_perf.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "base/version.h"
#include "bench/all_reduce_result.h"
#include "cli/command_line.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream in(line);
    return {std::istream_iterator<std::string>(in), {}};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Figures {
    double time, algorithm, bus;  // us, GB/s
    bool operator==(const Figures&) const = default;
};

/// Reads a table by the rules of SuperBench's nccl-bw: the lines from the last one with
/// "out-of-place" to the last one with "Out of bounds values". The first with "time" and "busbw"
/// names the columns, which count from the right; lines that begin with a number are sizes.
std::map<size_t, Figures> read_as_superbench(const std::string& out, bool in_place) {
    const std::vector<std::string> lines = lines_of(out);
    size_t first = 0, last = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
        if (has(lines[i], "out-of-place")) first = i + 1;
        if (has(lines[i], "Out of bounds values")) last = i;
    }
    std::map<std::string, size_t> from_right;  // 1: the last column
    std::map<size_t, Figures> sizes;
    for (size_t i = first; i < last; ++i) {
        const std::vector<std::string> words = words_of(lines[i]);
        if (from_right.empty() && has(lines[i], "time") && has(lines[i], "busbw")) {
            for (size_t at = 0; at < words.size(); ++at)
                if (in_place || !from_right.contains(words[at])) from_right[words[at]] = words.size() - at;
        } else if (!words.empty() && std::isdigit(words[0][0]) && !from_right.empty()) {
            const auto figure = [&](const char* name) {
                return std::stod(words.at(words.size() - from_right.at(name)));
            };
            sizes[std::stoul(words[0])] = {figure("time"), figure("algbw"), figure("busbw")};
        }
    }
    return sizes;
}

/// Reads the verdict by the rules of Azure's health checks: a line with FAILED is a failure; the
/// sixth word of the first line with "bandwidth" is the mean. Nothing: failed.
std::optional<double> read_as_azure(const std::string& out) {
    for (const std::string& line : lines_of(out)) {
        if (has(line, "FAILED")) return std::nullopt;
        if (has(line, "bandwidth")) return std::stod(words_of(line).at(5));
    }
    return std::nullopt;
}

// The texts are what the formats of nccl-tests 2.19.6 give for these numbers.
TEST(NcclTests, LinesAreThoseOfAllReducePerf) {
    const NcclTestsRun run{.ranks = {{4711, "node01", 0, "a device"}, {4712, "node01", 1, "a device"}},
                           .smallest = 8,
                           .largest = 1024,
                           .iterations = 20};
    const std::vector<std::string> header = lines_of(nccl_tests_header(run));
    ASSERT_EQ(header.size(), 12u);
    EXPECT_EQ(header[1], "# Collective test starting: convoy comm-test");
    EXPECT_EQ(header[2],
              "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 2 iters: 20 agg iters: 1 "
              "validation: 1 graph: 0 unalign: 0");
    EXPECT_EQ(header[4], "#");
    EXPECT_EQ(header[5], "# Using devices");
    EXPECT_EQ(header[6], "#  Rank  0 Group  0 Pid   4711 on     node01 device  0 [0000:00:00] a device");
    EXPECT_EQ(header[7], "#  Rank  1 Group  0 Pid   4712 on     node01 device  1 [0000:00:00] a device");
    EXPECT_EQ(header[8], "#");
    EXPECT_EQ(header[9],
              "#                                                              out-of-place                       "
              "in-place          ");
    EXPECT_EQ(
        header[10],
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   "
        "busbw  #wrong ");
    EXPECT_EQ(header[11],
              "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
              "(GB/s)         ");
    const auto row = [](size_t bytes, double out_of_place, int64_t wrong_out, double in_place, int64_t wrong_in) {
        return nccl_tests_row({bytes, 1e-6 * in_place, 1e-6 * out_of_place, wrong_in, wrong_out}, 4);
    };
    EXPECT_EQ(
        row(8, 2.31, 0, 0.18, 0),
        "           8             2     float     sum      -1     2.31    0.00    0.01       0     0.18    0.04    "
        "0.07       0\n");
    EXPECT_EQ(
        row(33554432, 99999.99, 0, 1234567.8, 3),
        "    33554432       8388608     float     sum      -1   100000    0.34    0.50       0  1234568    0.03    "
        "0.04       3\n");
    EXPECT_EQ(row(size_t(4) << 30, 12345678.9, 0, 999.996, 2500000),
              "  4294967296    1073741824     float     sum      -1  1.2e+07    0.35    0.52       0  1000.00  4295.0  "
              "6442.5  2.5e+06\n");
    EXPECT_EQ(row(size_t(4) << 30, 3, 0, 30, 0),
              "  4294967296    1073741824     float     sum      -1     3.00   1e+06   2e+06       0    30.00  143166  "
              "214748       0\n");
    const SizeTimes times{{{24'300'000, 1e-3, 1e-3}}, 0};
    EXPECT_EQ(nccl_tests_footer(times, 2, NAN),
              "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 24.3 \n#\n"
              "# Collective test concluded: convoy comm-test\n#\n\n");
    EXPECT_TRUE(has(nccl_tests_footer(times, 2, 24.2), "# Avg bus bandwidth    : 24.3 OK\n"));
    EXPECT_TRUE(has(nccl_tests_footer(times, 2, 24.4), "# Avg bus bandwidth    : 24.3 FAILED\n"));
    EXPECT_TRUE(has(nccl_tests_footer({times.sizes, 3}, 2, NAN), "# Out of bounds values : 3 FAILED\n"));
}

TEST(NcclTests, AVersionOfNcclIsItsCode) {
    EXPECT_EQ(nccl_version_code("2.27.3"), 22703);
    EXPECT_EQ(nccl_version_code("2.9.12"), 20912);
    EXPECT_EQ(nccl_version_code(""), 0);
    EXPECT_EQ(nccl_version_code("unknown"), 0);
}

void expect_figures(const nlohmann::json& j, const Figures& printed, double bytes, const std::string& what) {
    const double seconds = 1e-6 * j.at("time").get<double>(), bandwidth = bytes / seconds / 1e9;
    EXPECT_NEAR(j.at("alg_bw").get<double>(), bandwidth, 1e-9 * bandwidth) << what;
    EXPECT_NEAR(j.at("bus_bw").get<double>(), bandwidth * 4 / 3, 2e-9 * bandwidth) << what << ": three ranks";
    EXPECT_EQ(j.at("nwrong"), 0) << what;
    EXPECT_NEAR(printed.time, 1e6 * seconds, 0.5 + 1e-3 * printed.time) << what;
    EXPECT_NEAR(printed.algorithm, bandwidth, 0.006 + 1e-2 * bandwidth) << what;
    EXPECT_NEAR(printed.bus, bandwidth * 4 / 3, 0.006 + 1e-2 * bandwidth) << what;
}

/// Checks the keys that all_reduce_perf writes.
void expect_config(const nlohmann::json& j) {
    EXPECT_EQ(j.at("version"), 3);
    EXPECT_EQ(j.at("nccl_version"), 0) << "these sums are MPI's";
    EXPECT_EQ(j.at("start_time").get<std::string>().size(), std::string("2026-01-02 03:04:05").size());
    EXPECT_LE(j.at("start_time").get<std::string>(), j.at("end_time").get<std::string>());
    EXPECT_EQ(j.at("args").at(1), "comm-test");
    EXPECT_TRUE(j.at("env").empty());
    EXPECT_TRUE(j.at("errors").empty());
    const nlohmann::json& config = j.at("config");
    for (const auto& [key, value] : std::map<std::string, int>{{"nthreads", 1},
                                                               {"ngpus", 1},
                                                               {"minimum_bytes", 1024},
                                                               {"maximum_bytes", 65536},
                                                               {"step_factor", 2},
                                                               {"iterations", 3},
                                                               {"aggregated_iterations", 1},
                                                               {"validation", 1},
                                                               {"graph", 0}})
        EXPECT_EQ(config.at(key), value) << key;
    ASSERT_EQ(config.at("devices").size(), 3u);
    std::set<int64_t> processes;
    for (int rank = 0; rank < 3; ++rank) {
        const nlohmann::json& device = config.at("devices").at(size_t(rank));
        EXPECT_EQ(device.at("rank"), rank);
        EXPECT_EQ(device.at("device"), rank);
        EXPECT_EQ(device.at("hostname"), test_comm().host());
        EXPECT_FALSE(device.at("device_info").get<std::string>().empty());
        processes.insert(device.at("pid").get<int64_t>());
    }
    EXPECT_EQ(processes.size(), 3u);
}

TEST(NcclTests, ReadersOfAllReducePerfReadARun) {
    const TempDir dir;
    const std::string file = dir.path("sums.json");
    const Finished f =
        launch(3, "comm-test --device cpu --bytes 1K..64K --iterations 3 --log-format nccl-tests --json " + file);
    ASSERT_EQ("", failure(f));
    const auto j = nlohmann::json::parse(read_file(file));
    expect_config(j);
    double sum = 0;
    const std::map<size_t, Figures> out_of_place = read_as_superbench(f.out, false),
                                    in_place = read_as_superbench(f.out, true);
    ASSERT_EQ(out_of_place.size(), 7u) << f.out;
    EXPECT_NE(out_of_place, in_place) << "each is measured";
    for (const auto& result : j.at("results")) {
        const auto bytes = result.at("size").get<size_t>();
        EXPECT_EQ(result.at("count"), bytes / 4);
        EXPECT_EQ(result.at("type"), "float");
        EXPECT_EQ(result.at("redop"), "sum");
        EXPECT_EQ(result.at("actual_iterations"), 3);
        expect_figures(result.at("out_of_place"), out_of_place.at(bytes), double(bytes), "out of place");
        expect_figures(result.at("in_place"), in_place.at(bytes), double(bytes), "in place");
        for (const char* place : {"out_of_place", "in_place"}) sum += result.at(place).at("bus_bw").get<double>() / 14;
    }
    EXPECT_EQ(j.at("results").size(), 7u);
    EXPECT_NEAR(j.at("average_bus_bandwidth").at("bandwidth").get<double>(), sum, 1e-9 * sum);
    EXPECT_EQ(j.at("average_bus_bandwidth").at("okay"), "unchecked");
    EXPECT_EQ(j.at("out_of_bounds"), (nlohmann::json{{"count", 0}, {"okay", "true"}}));
    ASSERT_TRUE(read_as_azure(f.out));
    EXPECT_NEAR(*read_as_azure(f.out), sum, 1e-5 * sum);

    EXPECT_EQ(j.at("convoy_version"), version);
    EXPECT_EQ(j.at("all_reduce").at("sizes").size(), 7u) << "ours beside theirs";
    for (size_t i = 0; i < 7; ++i)
        EXPECT_NEAR(1e6 * j.at("all_reduce").at("sizes").at(i).at("seconds").get<double>(),
                    j.at("results").at(i).at("in_place").at("time").get<double>(), 1e-3);
}

TEST(NcclTests, NoEnvironmentHidesHostsAndPathsInTheJson) {
    const TempDir dir;
    const std::string file = dir.path("sums.json");
    ASSERT_EQ("", failure(launch(
                      2, "comm-test --device cpu --bytes 1K --log-format nccl-tests --no-environment --json " + file)));
    const std::string text = read_file(file);
    const auto j = nlohmann::json::parse(text);
    EXPECT_EQ(j.at("config").at("devices").at(1).at("hostname"), "host-1");
    EXPECT_EQ(j.at("args").back(), "sums.json");
    EXPECT_FALSE(has(text, dir.path()));
}

TEST(NcclTests, ABandwidthThatIsTooLowIsCode8) {
    for (const char* format : {"plain", "nccl-tests"}) {
        const std::string arguments =
            std::string("comm-test --device cpu --bytes 1K --iterations 2 --log-format ") + format;
        EXPECT_EQ("", failure(launch(2, arguments + " --at-least 1e-9"))) << format;
        const Finished low = launch(2, arguments + " --at-least 1e9");
        EXPECT_EQ("", refusal(low, Exit::not_accepted, {"GB/s", "--at-least 1e+09"})) << format;
        EXPECT_TRUE(has(low.out, "us bandwidth")) << "the table is printed all the same: " << low.out;
    }
    const TempDir dir;
    const std::string both =
        "comm-test --device cpu --bytes 1K --log-format nccl-tests --json " + dir.path("sums.json");
    const Finished low = launch(2, both + " --at-least 1e9");
    EXPECT_EQ(low.code, int(Exit::not_accepted));
    EXPECT_FALSE(read_as_azure(low.out)) << low.out;
    EXPECT_EQ(nlohmann::json::parse(read_file(dir.path("sums.json"))).at("average_bus_bandwidth").at("okay"), "false");
}

TEST(NcclTests, ImpossibleCombinationsAreRefused) {
    for (const auto& [arguments, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"--log-format nccl-tests", {"--log-format nccl-tests", "--bytes"}},
             {"--log-format nccl-tests --steps 3", {"--log-format nccl-tests", "--bytes"}},
             {"--log-format nccl-tests --bytes 4 --steps 3", {"--steps"}},
             {"--log-format nccl-tests --bytes 4 --cluster x", {"--cluster"}},
             {"--log-format nccl_tests --bytes 4", {"nccl-tests"}},
             {"--at-least 1", {"--at-least", "--bytes"}},
             {"--at-least 0 --bytes 4", {"--at-least 0"}},
             {"--at-least -1 --bytes 4", {"--at-least"}},
             {"--at-least nan --bytes 4", {"--at-least"}},
             {"--at-least inf --bytes 4", {"--at-least"}},
             {"--at-least 1GB --bytes 4", {"--at-least"}}})
        EXPECT_EQ("", refusal(convoy_alone("comm-test " + arguments), Exit::usage, words)) << arguments;
    EXPECT_EQ("", refusal(convoy_alone("comm-test --device cpu --at-least 1 --bytes 4"), Exit::usage,
                          {"--at-least", "one rank"}));
}

/// Adds 1 to the first element of every sum out of place.
class WrongOutOfPlace final : public cpu::CpuBackend {
public:
    WrongOutOfPlace() : cpu::CpuBackend({1}, test_comm()) {}
    void allreduce_into(Tensor from, Tensor to, Tape& tape) override {
        cpu::CpuBackend::allreduce_into(from, to, tape);
        wait_allreduce(tape);
        tape.push_back({{.name = "damage"}, Resource::compute, [to] { to.as<float>()[0] += 1; }});
    }
};

TEST(NcclTests, WrongElementsAreCountedToTheEndOfTheTable) {
    testing::internal::CaptureStdout();
    WrongOutOfPlace backend;
    const SizeTimes times = measure_all_reduces(
        test_comm(), backend, {.sizes = parse_sizes("1K..4K"), .iterations = 1, .lines = AllReduceLines::nccl_tests});
    const std::string out = testing::internal::GetCapturedStdout() + nccl_tests_footer(times, 1, NAN);
    EXPECT_EQ(times.failures, 3);
    EXPECT_TRUE(has(times.trouble, "1 of 256 elements")) << times.trouble;
    for (const SizeTime& s : times.sizes) {
        EXPECT_EQ(s.out_of_place_wrong, 1);
        EXPECT_EQ(s.wrong, 0);
    }
    EXPECT_EQ(lines_of(out).size(), 3u + 6u) << out;
    EXPECT_TRUE(has(out, "# Out of bounds values : 3 FAILED\n")) << out;
    EXPECT_FALSE(read_as_azure(out));
    EXPECT_EQ("", problem_of_error(Exit::comm, {"rank 0", "1 of 256 elements"},
                                   [&] { check_sums(test_comm(), times.trouble); }));
}

TEST(NcclTests, SumsOutOfPlaceLeaveTheirInputAsItIs) {
    if (test_comm().size() == 1) {
        EXPECT_EQ("", problem_on_ranks(3));
    }
    constexpr int count = 1000;
    const int ranks = test_comm().size(), rank = test_comm().rank();
    cpu::CpuBackend backend({1}, test_comm());
    const Buffer from = backend.allocate(count * sizeof(float)), to = backend.allocate(count * sizeof(float));
    auto *input = static_cast<float*>(from.get()), *sums = static_cast<float*>(to.get());
    for (int i = 0; i < count; ++i) input[i] = float((rank + 1) * i);
    Tape tape;
    const Shape shape{1, 1, 1, count};
    backend.allreduce_into({input, shape, DType::f32}, {sums, shape, DType::f32}, tape);
    backend.wait_allreduce(tape);
    const auto run = backend.finish(std::move(tape));
    for (int again = 0; again < 2; ++again) run();
    for (int i = 0; i < count; ++i) {
        EXPECT_EQ(input[i], float((rank + 1) * i));
        EXPECT_EQ(sums[i], float(ranks * (ranks + 1) / 2 * i)) << i;
    }
}

TEST(NcclTests, TheMeanBandwidthIsOfAllMeasurements) {
    EXPECT_DOUBLE_EQ(mean_bus_bandwidth({{1000, 1e-6}, {4000, 2e-6}}, 2), (1e9 + 2e9) / 2);
    EXPECT_DOUBLE_EQ(mean_bus_bandwidth({{1000, 1e-6, 0.5e-6}, {4000, 2e-6, 4e-6}}, 2), (1e9 + 2e9 + 2e9 + 1e9) / 4);
    EXPECT_DOUBLE_EQ(mean_bus_bandwidth({{1000, 1e-6}}, 4), 1.5e9);
}

}  // namespace
}  // namespace convoy::test
