// Gradients as integers on the device: where ranges end, what they share, and the order of threads.
// tests/ops/exact_sums_test.cpp tests the accuracy of sums on every device.
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

constexpr int bits = 50;

/// An arena of three tensors, the second of several ranges.
struct Arena {
    std::vector<size_t> ends{16, 16 + 1220, 16 + 1220 + 8};
    alignas(32) int64_t sums[16 + 1220 + 8] = {};
    std::vector<int32_t> tops{3, -20, exponent::of_zero}, seen = std::vector<int32_t>(3, exponent::of_zero);
    int32_t redo = 7;

    size_t count() const { return ends.back(); }
    ExactSums where() { return {sums, tops.data(), seen.data(), &redo, ends, bits, 1}; }
    void accumulate_exact(const Floats& g, size_t begin, size_t end) {
        const std::vector<ExactRange> ranges = where().ranges(begin, end, 300);
        kernels::accumulate_exact(where(), g.data(), ranges.data(), int(ranges.size()), nullptr);
    }
    Floats finalize_exact() {
        const std::vector<ExactRange> ranges = where().ranges(0, count(), 256);
        Floats g(count(), 99);
        kernels::finalize_exact(where(), ranges.data(), int(ranges.size()), g.data(), nullptr);
        return g;
    }
};

/// Returns multiples of 2^-10 of the size of the tensor, which sums hold exactly; zeros in the
/// third tensor.
Floats gradients(uint64_t seed) {
    Floats g = normals(16 + 1220 + 8, seed);
    for (size_t i = 0; i < g.size(); ++i) {
        const float whole = std::round(std::clamp(g[i], -4.0f, 4.0f) * 1024) / 1024;
        g[i] = i < 16 ? whole : i < 16 + 1220 ? std::ldexp(whole, -23) : 0;
    }
    return g;
}

TEST(KernelExactSums, AddWholeNumbersWithoutAnyError) {
    const Floats a = gradients(1), b = gradients(2);
    in_every_order([&] {
        Arena arena;
        for (const Floats& g : {a, b}) {
            arena.accumulate_exact(g, 16, arena.count());
            arena.accumulate_exact(g, 0, 16);
        }
        const double scale = std::ldexp(1.0, bits + 20);
        EXPECT_EQ(double(arena.sums[100]), (double(a[100]) + double(b[100])) * scale);
        float largest = 0;
        for (size_t i = 16; i < 16 + 1220; ++i) largest = std::max({largest, std::abs(a[i]), std::abs(b[i])});
        EXPECT_EQ(arena.seen[1], std::ilogb(largest) + 1);
        EXPECT_EQ(arena.seen[2], exponent::of_zero);
        const std::vector<int32_t> seen = arena.seen;
        const Floats sums = arena.finalize_exact();
        for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], a[i] + b[i]) << i;
        EXPECT_EQ(arena.redo, 0);
        EXPECT_EQ(arena.tops, (std::vector<int32_t>{seen[0] + exponent::headroom, seen[1] + exponent::headroom,
                                                    exponent::of_zero}));
        EXPECT_EQ(arena.seen, std::vector<int32_t>(3, exponent::of_zero));
        for (const int64_t sum : arena.sums) EXPECT_EQ(sum, 0);
        return std::vector<Floats>{sums};
    });
}

// 7.99 fits the tensor's exponent, 8 does not. The step is repeated only if all gradients are
// finite.
TEST(KernelExactSums, AskForTheStepAgainOnlyWhereAllIsFinite) {
    for (const auto& [value, redo] : {std::pair{7.99f, 0}, {8.0f, 1}, {-8.0f, 1}, {INFINITY, 0}, {NAN, 0}}) {
        Arena arena;
        Floats g = gradients(3);
        g[5] = value;
        arena.accumulate_exact(g, 0, arena.count());
        const Floats sums = arena.finalize_exact();
        EXPECT_EQ(arena.redo, redo) << value;
        EXPECT_EQ(std::isnan(sums[0]), !std::isfinite(value)) << value;
        EXPECT_FALSE(std::isnan(sums[16])) << "of another tensor";
        EXPECT_EQ(arena.tops[0], std::isfinite(value) ? std::ilogb(value) + 1 + exponent::headroom : 3) << value;
    }
}

TEST(KernelExactSums, InfinitiesOfBothSignsAreNoNumber) {
    for (const size_t place : {size_t(0), size_t(5), size_t(16 + 700)}) {
        Arena arena;
        for (const float v : {INFINITY, -INFINITY}) {
            Floats g(arena.count());
            g[place] = v;
            arena.accumulate_exact(g, 0, arena.count());
        }
        const Floats sums = arena.finalize_exact();
        EXPECT_EQ(std::isnan(sums[0]), place < 16) << place;
        EXPECT_EQ(std::isnan(sums[16]), place >= 16) << place;
    }
}

TEST(KernelExactSums, RefuseWhatIsNotAligned) {
    Arena arena;
    const Floats g(arena.count() + 4);
    const std::vector<ExactRange> ranges = {{0, 16, 0}};
    EXPECT_THROW(kernels::accumulate_exact(arena.where(), g.data() + 1, ranges.data(), 1, nullptr), std::logic_error);
    ExactSums moved = arena.where();
    ++moved.sums;
    EXPECT_THROW(kernels::accumulate_exact(moved, g.data(), ranges.data(), 1, nullptr), std::logic_error);
}

}  // namespace
}  // namespace convoy::test
