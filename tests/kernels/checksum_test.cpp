// Checksums on the device: any order of threads and any length, more elements than threads too.
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <bit>

#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

constexpr int64_t index = 48;

uint64_t expected(const Floats& values) {
    uint64_t sum = 5;
    for (size_t i = 0; i < values.size(); ++i)
        sum += checksum_term(index + int64_t(i), std::bit_cast<uint32_t>(values[i]));
    return sum;
}

uint64_t added(Floats values, int64_t step, int64_t every) {
    uint64_t sum = 5;
    const Counters counters{.step = step};
    kernels::checksum({.values = {values.data(), {1, 1, 1, int(values.size())}, DType::f32},
                       .index = index,
                       .sum = &sum,
                       .counters = &counters,
                       .every = every},
                      nullptr);
    return sum;
}

TEST(KernelChecksum, IsTheSameInAnyOrder) {
    for (const int count : {1, 31, 257, 3000}) {
        const Floats values = normals(size_t(count), 9);
        in_every_order([&] {
            EXPECT_EQ(added(values, 7, 4), expected(values)) << count;
            EXPECT_EQ(added(values, 7, 3), 5u) << count;
            return std::vector<Floats>{};
        });
    }
}

TEST(KernelChecksum, AThreadTakesSeveralElementsOfALongArena) {
    const Floats values = normals((1024 + 3) * 256 + 7, 10);
    EXPECT_EQ(added(values, 0, 1), expected(values));
}

TEST(KernelChecksum, OfNothingIsNothing) { EXPECT_EQ(added({}, 0, 1), 5u); }

}  // namespace
}  // namespace convoy::test
