// Lines of comm-test after its table: verdicts and warnings, for times that the test makes up.
#include "bench/all_reduce_result.h"

#include <gtest/gtest.h>

#include <cmath>

namespace convoy::test {
namespace {

constexpr size_t mib = 1 << 20;

bool starts(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

TEST(AllReduceResult, TheMedianOfLargeSizesDecides) {
    // expects 100 us per MiB
    const ExpectedAllReduce expected = [](size_t bytes) { return 1e-4 * double(bytes) / mib; };
    const auto verdict = [&](std::vector<std::pair<size_t, double>> ratios, bool by_nccl = true) {
        std::vector<SizeTime> times;
        for (const auto& [bytes, ratio] : ratios) times.push_back({bytes, expected(bytes) / ratio});
        return verdict_on_all_reduces(times, expected, by_nccl);
    };
    EXPECT_TRUE(starts(verdict({{8 * mib, 0.81}}), "as expected"));
    EXPECT_TRUE(starts(verdict({{8 * mib, 0.79}}), "slower than expected: median ratio 0.79 "));
    EXPECT_TRUE(starts(verdict({{mib, 0.1}, {2 * mib, 0.1}, {4 * mib, 0.1}, {8 * mib, 1.5}}), "as expected"))
        << "small sizes do not count";
    EXPECT_TRUE(starts(verdict({{8 * mib, 0.1}, {16 * mib, 0.9}, {32 * mib, 1}}), "as expected"))
        << "of one it is noise";
    EXPECT_TRUE(
        starts(verdict({{8 * mib, 1}, {16 * mib, 0.5}, {32 * mib, 0.6}}), "slower than expected: median ratio 0.60 "));
    EXPECT_NE(verdict({{8 * mib, 0.5}}).find("NCCL_DEBUG=INFO"), std::string::npos);
    EXPECT_NE(verdict({{8 * mib, 0.5}}).find("sockets instead of verbs"), std::string::npos);
    EXPECT_EQ(verdict({{8 * mib, 0.5}}, false).find("NCCL"), std::string::npos) << "MPI has other causes";
    EXPECT_TRUE(starts(verdict({{8 * mib - 4, 0.1}}), "no size is 8 MiB"));
}

TEST(AllReduceResult, FallingTimesAreWarnedOf) {
    EXPECT_EQ(warning_of_falling_times({}), "");
    EXPECT_EQ(warning_of_falling_times({{4, 1e-5}, {8, 1e-5}, {16, 2e-5}}), "");
    EXPECT_TRUE(
        starts(warning_of_falling_times({{4, 1e-5}, {8, 2e-5}, {16, 1.9e-5}}), "8 bytes took longer than 16: "));
}

}  // namespace
}  // namespace convoy::test
