// convoy comm-test: sums over several ranks are compared with the values that they printed. A wrong
// sum is found on a backend that makes one. No bandwidth is checked.
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "bench/all_reduces.h"
#include "cli/command_line.h"
#include "tests/support/cluster.h"
#include "tests/support/sample_log.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

/// Adds 1 to one element of every all-reduce from the `from`-th on.
class WrongBackend final : public cpu::CpuBackend {
public:
    WrongBackend(int from, size_t element) : cpu::CpuBackend({1}, test_comm()), from_(from), element_(element) {}
    void allreduce(Tensor bucket, size_t counts, Tape& tape) override {
        cpu::CpuBackend::allreduce(bucket, counts, tape);
        tape.push_back({{.name = "damage"}, Resource::compute, [this, bucket] {
                            if (++sums_ >= from_ && element_ < bucket.count()) bucket.as<float>()[element_] += 1;
                        }});
    }

private:
    const int from_;
    const size_t element_;
    int sums_ = 0;
};

TEST(CommTest, SumsOfSmallNumbersAreThoseOfAllRanks) {
    constexpr int ranks = 3, steps = 7;
    const Finished f = launch(ranks, "comm-test --device cpu --steps 7 --seed 5");
    ASSERT_EQ("", failure(f));
    std::map<int, std::map<int, std::pair<int, int>>> said;  // step -> rank -> (value, sum)
    std::istringstream in(f.out);
    std::set<int> values;
    for (std::string line; std::getline(in, line);) {
        int rank, step, value, sum, end = 0;
        if (std::sscanf(line.c_str(), "rank: %d, step: %d, value: %d, reduced sum: %d.%n", &rank, &step, &value, &sum,
                        &end) != 4 ||
            end == 0)
            continue;
        EXPECT_TRUE(said[step].insert({rank, {value, sum}}).second) << line;
        EXPECT_TRUE(value >= 0 && value <= 10) << line;
        values.insert(value);
    }
    ASSERT_EQ(said.size(), size_t(steps)) << f.out;
    for (const auto& [step, of_ranks] : said) {
        EXPECT_EQ(of_ranks.size(), size_t(ranks));
        int sum = 0;
        for (const auto& [rank, pair] : of_ranks) sum += pair.first;
        for (const auto& [rank, pair] : of_ranks) EXPECT_EQ(pair.second, sum) << "rank " << rank << ", step " << step;
    }
    EXPECT_GT(values.size(), 3u) << "the ranks draw different numbers";
}

// Prints exactly the script's lines, with steps from 0.
TEST(CommTest, PrintsTheLinesOfTheToyScript) {
    const Finished f = launch(2, "comm-test --device cpu --steps 5 --seed 3 --log-format toy");
    ASSERT_EQ("", failure(f));
    EXPECT_EQ("", problem_of_toy_sums(f.out));
}

TEST(CommTest, BandwidthTableHasEverySize) {
    const Finished f = launch(2, "comm-test --device cpu --bytes 1000..64K --iterations 3");
    ASSERT_EQ("", failure(f));
    std::vector<size_t> sizes;
    std::istringstream in(f.out);
    double all_bus = 0, mean = -1;
    for (std::string line; std::getline(in, line);) {
        size_t bytes, count;
        double time, algorithm, bus;
        long long wrong;
        (void)std::sscanf(line.c_str(), "# mean bus bandwidth: %lf GB/s", &mean);
        if (std::sscanf(line.c_str(), "%zu %zu float sum %lf %lf %lf %lld", &bytes, &count, &time, &algorithm, &bus,
                        &wrong) != 6)
            continue;
        sizes.push_back(bytes);
        all_bus += bus;
        EXPECT_EQ(count * 4, bytes);
        EXPECT_GT(time, 0);
        EXPECT_EQ(bus, algorithm) << "two ranks send as much as they reduce";
        EXPECT_NEAR(algorithm, double(bytes) / time / 1e3, 0.001 + 0.01 * algorithm);
        EXPECT_EQ(wrong, 0);
    }
    EXPECT_EQ(sizes, (std::vector<size_t>{1000, 2000, 4000, 8000, 16000, 32000, 64000})) << f.out;
    EXPECT_NEAR(mean, all_bus / 7, 0.001) << "of printed figures";
    EXPECT_EQ(count(f.out, "reduced sum"), 0) << "one test at a time, unless both are asked for";
    EXPECT_EQ("", failure(launch(1, "comm-test --device cpu --bytes 4 --steps 1")));
}

TEST(CommTest, BusBandwidthIsThatOfARing) {
    EXPECT_DOUBLE_EQ(bus_factor(1), 0);
    EXPECT_DOUBLE_EQ(bus_factor(2), 1);
    EXPECT_DOUBLE_EQ(bus_factor(4), 1.5);
    EXPECT_DOUBLE_EQ(bus_factor(32), 1.9375);
}

TEST(CommTest, SizesAreRead) {
    EXPECT_EQ(parse_sizes("64"), (std::vector<size_t>{64}));
    EXPECT_EQ(parse_sizes("5"), (std::vector<size_t>{8}));
    EXPECT_EQ(parse_sizes("1K..5K"), (std::vector<size_t>{1024, 2048, 4096}));
    EXPECT_EQ(parse_sizes("1K..1G").size(), 21u);
    EXPECT_EQ(parse_sizes("4G"), (std::vector<size_t>{size_t(4) << 30}));
    for (const char* bad :
         {"", "x", "0", "3", "-1K", "5G", "1k", "1K..", "..1K", "2K..1K", "1K...2K", "1K..2K..4K", "nan", "1KB"})
        EXPECT_EQ("", problem_of_error(Exit::usage, {"--bytes", "1K..1G"}, [&] { parse_sizes(bad); })) << bad;
}

TEST(CommTest, WrongSumsAreCode6) {
    testing::internal::CaptureStdout();
    WrongBackend third(3, 0), late(1, 300'000);
    EXPECT_EQ("", problem_of_error(Exit::comm, {"rank 0", "step 3"},
                                   [&] { all_reduce_small_numbers(test_comm(), third, {.steps = 5}); }));
    EXPECT_EQ("", problem_of_error(Exit::comm, {"rank 0", "1 of 524288 elements"}, [&] {
                  measure_all_reduces(test_comm(), late, {.sizes = parse_sizes("512K..4M"), .iterations = 1});
              }));
    WrongBackend right(1'000'000, 0);
    all_reduce_small_numbers(test_comm(), right, {.steps = 5});
    measure_all_reduces(test_comm(), right, {.sizes = parse_sizes("512K..4M"), .iterations = 1});
    const std::string out = testing::internal::GetCapturedStdout();
    EXPECT_EQ(count(out, "reduced sum"), 3 + 5) << out;
}

TEST(CommTest, MistakesAreRefused) {
    for (const auto& [arguments, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"--bytes 1X", {"--bytes 1X", "1K..1G"}},
             {"--steps -1", {"--steps", "-1"}},
             {"--sleep 61", {"--sleep 61", "0 to 60"}},
             {"--sleep nan", {"--sleep"}},
             {"--iterations 0", {"--iterations"}},
             {"--device tpu", {"--device tpu"}},
             {"--log-format x", {"plain", "toy", "nccl-tests"}},
             {"--log-format toy --bytes 4", {"--bytes"}},
             {"--byte 4", {"--byte", "--bytes"}},
             {"4", {"'4'"}}})
        EXPECT_EQ("", refusal(launch(2, "comm-test " + arguments), Exit::usage, words)) << arguments;
    EXPECT_NE(convoy_alone("comm-test --help").out.find("usage: convoy comm-test"), std::string::npos);
}

// If a rank dies, the test ends on all ranks with a code other than 0.
TEST(CommTest, ADeadRankEndsIt) {
    const std::string arguments =
        "comm-test --device cpu --steps 1000 --sleep 0.1 --seed " + std::to_string(getpid());  // unique to this job
    const Finished f = run("(" + launch_command(2, arguments, 30) + ") & job=$!\n" +
                           "for wait in $(seq 100); do rank=$(pgrep -n -f '^" + sibling("convoy") + " " + arguments +
                           "') && break; sleep 0.1; done\n" + "sleep 1; kill -9 $rank || exit 124; wait $job");
    EXPECT_NE(f.code, 0);
    EXPECT_NE(f.code, 124) << "it hung";
}

}  // namespace
}  // namespace convoy::test
