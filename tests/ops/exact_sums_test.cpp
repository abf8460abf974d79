// Sums of gradients as integers, compared with sums without rounding: 128-bit integers in a unit
// that divides all addends.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/exact_sums.h"
#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

constexpr size_t first_tensor = 48, all = first_tensor + 20'000;  // the second has several stripes
constexpr int ranks = 32;

/// Gradients of one logical rank: a tensor of size 1, and one of size 2^-40, each spread over 2^20.
Floats gradients_of(int rank) {
    const Floats normal = normals(all, 100 + uint64_t(rank)), spread = normals(all, 7);
    Floats g(all);
    for (size_t i = 0; i < all; ++i) {
        const int small = std::clamp(int(std::abs(spread[i]) * 10), 0, 20);
        g[i] = std::ldexp(normal[i], (i < first_tensor ? 0 : -40) - small);
    }
    return g;
}

/// Returns the sum with one rounding at the end: units of 2^-110 hold every bit of these numbers.
double exact_sum(const std::vector<Floats>& addends, size_t i) {
    __int128 sum = 0;
    for (const Floats& g : addends) {
        int exponent = 0;
        const auto mantissa = int64_t(std::ldexp(std::frexp(g[i], &exponent), 24));
        if (mantissa != 0) sum += __int128(mantissa) << (exponent - 24 + 110);
    }
    return std::ldexp(double(sum), -110);
}

class ExactSumsOn : public testing::TestWithParam<std::string> {
protected:
    ExactSumsOn() {
        sums_.sums = static_cast<int64_t*>(integers_.get());
        sums_.tops = static_cast<int32_t*>(exponents_.get());
        sums_.seen = sums_.tops + 2;
        sums_.redo = sums_.seen + 2;
        sums_.ends = {first_tensor, all};
        sums_.bits = 62 - 5;
        sums_.lanes = 1;
    }
    /// Accumulates and finalizes. Returns the resulting gradients.
    Floats summed(const std::vector<Floats>& addends) {
        Floats to(all);
        const Buffer gradients = upload(*backend_, to);
        std::vector<Buffer> from;
        Tape tape;
        for (const Floats& g : addends) {
            from.push_back(upload(*backend_, g));
            for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 1008}, {1008, all}})
                backend_->accumulate_exact(sums_, static_cast<float*>(from.back().get()), begin, end, tape);
        }
        backend_->finalize_exact(sums_, static_cast<float*>(gradients.get()), tape);
        backend_->finish(std::move(tape))();
        backend_->synchronize();
        backend_->download(to.data(), gradients.get(), all * sizeof(float));
        return to;
    }
    bool redo() {
        int32_t redo = 0;
        backend_->download(&redo, sums_.redo, sizeof redo);
        return redo != 0;
    }
    std::vector<int32_t> tops() {
        std::vector<int32_t> tops(2);
        backend_->download(tops.data(), sums_.tops, sizeof(int32_t) * 2);
        return tops;
    }
    static std::vector<Floats> of_all_ranks() {
        std::vector<Floats> addends;
        for (int rank = 0; rank < ranks; ++rank) addends.push_back(gradients_of(rank));
        return addends;
    }
    static int exponent_of_largest(const std::vector<Floats>& addends, size_t begin, size_t end) {
        float largest = 0;
        for (const Floats& g : addends)
            for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(g[i]));
        return std::ilogb(largest) + 1;
    }

    // Not a shared one: a CPU's remembers, by address, sums that it holds for all of its programs.
    const std::unique_ptr<Backend> backend_ = make_test_backend(GetParam());
    const Buffer integers_ = upload(*backend_, std::vector<int64_t>(all)),
                 exponents_ = upload(*backend_, std::vector<int32_t>(5, exponent::of_zero));
    ExactSums sums_{};
};

TEST_P(ExactSumsOn, AreRoundedOnce) {
    const std::vector<Floats> addends = of_all_ranks();
    summed(addends);
    ASSERT_TRUE(redo()) << "nobody knows how large gradients are";
    const std::vector<int32_t> expected = {exponent_of_largest(addends, 0, first_tensor) + exponent::headroom,
                                           exponent_of_largest(addends, first_tensor, all) + exponent::headroom};
    EXPECT_EQ(tops(), expected);
    const Floats sums = summed(addends);
    ASSERT_FALSE(redo());
    for (size_t i = 0; i < all; ++i) {
        const double exact = exact_sum(addends, i);
        const double unit = std::ldexp(1.0, expected[i >= first_tensor] - sums_.bits);  // unit of the integers
        const double half_a_place = std::ldexp(1.0, std::ilogb(std::max(std::abs(exact), 1e-300)) - 24);
        ASSERT_LE(std::abs(sums[i] - exact), half_a_place + 0.5 * ranks * unit) << i;
    }
}

TEST_P(ExactSumsOn, AreTheSameInAnyOrder) {
    std::vector<Floats> addends = of_all_ranks();
    summed(addends);
    const Floats sums = summed(addends);
    std::reverse(addends.begin(), addends.end());
    std::swap(addends[3], addends[17]);
    EXPECT_EQ(sums, summed(addends));
    EXPECT_GT(std::count_if(sums.begin(), sums.end(), [](float v) { return v != 0; }), int64_t(all) - 10);
}

TEST_P(ExactSumsOn, WhatGrowsTooFastIsDoneAgain) {
    std::vector<Floats> addends = of_all_ranks();
    summed(addends);
    const std::vector<int32_t> before = tops();
    for (size_t i = first_tensor; i < all; ++i) addends[5][i] = std::ldexp(addends[5][i], exponent::headroom + 3);
    summed(addends);
    EXPECT_TRUE(redo());
    EXPECT_EQ(tops()[0], before[0]);
    EXPECT_GT(tops()[1], before[1]);
    const Floats sums = summed(addends);
    EXPECT_FALSE(redo());
    for (size_t i = 0; i < all; ++i) ASSERT_NEAR(sums[i], exact_sum(addends, i), 1e-6 * std::abs(sums[i]) + 1e-16) << i;
}

TEST_P(ExactSumsOn, WhatIsNotFiniteLeavesOtherTensorsRight) {
    std::vector<Floats> addends = of_all_ranks();
    addends[9][first_tensor + 77] = std::numeric_limits<float>::infinity();
    summed(addends);
    EXPECT_TRUE(redo()) << "nobody knows how large the first tensor is";
    const Floats sums = summed(addends);
    EXPECT_FALSE(redo());
    for (size_t i = 0; i < first_tensor; ++i) ASSERT_NEAR(sums[i], exact_sum(addends, i), 1e-6 * std::abs(sums[i]));
}

// A tensor is followed by zeros up to the next one: a NaN there would never disappear.
TEST_P(ExactSumsOn, WhatIsNotFiniteLeavesZerosAfterATensor) {
    std::vector<Floats> addends = of_all_ranks();
    for (Floats& g : addends) std::fill(g.end() - 5, g.end(), 0.0f);
    addends[9][first_tensor + 77] = std::numeric_limits<float>::infinity();
    const Floats sums = summed(addends);
    EXPECT_TRUE(std::isnan(sums[first_tensor + 77]));
    for (size_t i = all - 5; i < all; ++i) EXPECT_EQ(sums[i], 0) << i;
}

// Two infinities of opposite sign add up to zero as integers, so the sum does not show them.
TEST_P(ExactSumsOn, InfinitiesOfBothSignsAreNoNumber) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    summed(of_all_ranks());  // otherwise no exponent is known, and an infinite value gives NaN at once
    for (const size_t place : {size_t(0), size_t(5), first_tensor - 1, first_tensor + 77}) {
        std::vector<Floats> addends(2, Floats(all));
        addends[0][place] = infinite;
        addends[1][place] = -infinite;
        const Floats sums = summed(addends);
        const bool in_first = place < first_tensor;
        const auto numbers = [&](size_t begin, size_t end) {
            return std::none_of(sums.begin() + ptrdiff_t(begin), sums.begin() + ptrdiff_t(end),
                                [](float v) { return std::isnan(v); });
        };
        EXPECT_EQ(numbers(0, first_tensor), !in_first) << place;
        EXPECT_EQ(numbers(first_tensor, all), in_first) << place;
    }
}

TEST_P(ExactSumsOn, WhatIsNotFiniteIsNoNumberAndNotDoneAgain) {
    const std::vector<Floats> sound = of_all_ranks();
    summed(sound);
    const Floats sums = summed(sound);
    const std::vector<int32_t> before = tops();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<Floats> addends = sound;
        addends[9][first_tensor + 77] = bad;
        const Floats got = summed(addends);
        EXPECT_FALSE(redo());
        EXPECT_EQ(tops(), before);
        for (size_t i = 0; i < all; ++i)
            ASSERT_TRUE(i < first_tensor ? got[i] == sums[i] : std::isnan(got[i])) << i << " " << got[i];
        EXPECT_EQ(summed(sound), sums) << "nothing is left of it";
    }
}

TEST_P(ExactSumsOn, ZerosLeaveTheExponent) {
    const std::vector<Floats> addends = of_all_ranks();
    summed(addends);
    const std::vector<int32_t> before = tops();
    const Floats sums = summed({Floats(all), Floats(all)});
    EXPECT_FALSE(redo());
    EXPECT_EQ(tops(), before);
    EXPECT_EQ(sums, Floats(all));
}

INSTANTIATE_TEST_SUITE_P(All, ExactSumsOn, testing::ValuesIn(test_devices()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
