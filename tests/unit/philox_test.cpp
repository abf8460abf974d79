// Philox compared with the known answers of Random123, and the numbers computed from its words.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"

namespace convoy::test {
namespace {

std::vector<uint32_t> words(const Random4& r) { return {r.word, r.word + 4}; }

TEST(Philox, KnownAnswersOfRandom123) {
    EXPECT_EQ(words(philox(0, 0, 0, 0, 0)), (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    constexpr uint32_t ones = 0xffffffff;
    EXPECT_EQ(words(philox(~uint64_t(0), ones, ones, ones, ones)),
              (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(words(philox(0x299f31d0a4093822, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344)),
              (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformDrawsStayInRange) {
    EXPECT_EQ(uniform01(0), 0);
    EXPECT_LT(uniform01(0xffffffff), 1);
    EXPECT_EQ(uniform_below(0xffffffff, 9), 8u);
    EXPECT_EQ(uniform_below(0, 9), 0u);
    float two[2];
    normal2(0, 0, two);  // the logarithm's smallest argument
    EXPECT_TRUE(std::isfinite(two[0]) && std::isfinite(two[1]));
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < 10000; ++i) {
        const Random4 r = philox(3, i, 0, 0, 0);
        normal2(r.word[0], r.word[1], two);
        sum += two[0] + two[1];
        squares += two[0] * two[0] + two[1] * two[1];
    }
    EXPECT_NEAR(sum / 20000, 0, 5 / std::sqrt(20000));
    EXPECT_NEAR(squares / 20000, 1, 5 * std::sqrt(2.0 / 20000));
}

}  // namespace
}  // namespace convoy::test
