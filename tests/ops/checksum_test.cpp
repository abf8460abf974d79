// Checksums of values on each device, compared with a loop over a published hash.
#include <gtest/gtest.h>

#include <bit>

#include "ops/checksum.h"
#include "tests/ops/op_cases.h"

namespace convoy::test {
namespace {

// The first outputs of SplitMix64 from the seed 0 (Vigna, splitmix64.c): it adds
// 0x9e3779b97f4a7c15 to its state, and finalizes that.
TEST(ChecksumTerm, IsTheFinalizerOfSplitMix64) {
    EXPECT_EQ(checksum_term(0x9e3779b9, 0x7f4a7c15), 0xe220a8397b1dcdafu);
    EXPECT_EQ(checksum_term(0x3c6ef372, 0xfe94f82a), 0x6e789e6aa1b965f4u);
}

TEST(ChecksumTerm, EveryNthStepIsAudited) {
    std::vector<int64_t> audited;
    for (int64_t step = 0; step < 151; ++step)
        if (is_audited(step, 50)) audited.push_back(step + 1);
    EXPECT_EQ(audited, (std::vector<int64_t>{50, 100, 150}));
    EXPECT_TRUE(is_audited(0, 1));
    EXPECT_FALSE(is_audited(0, 0));
}

uint64_t expected(const Floats& values, int64_t index) {
    uint64_t sum = 0;
    for (const float v : values) sum += checksum_term(index++, std::bit_cast<uint32_t>(v));
    return sum;
}

class ChecksumOn : public testing::TestWithParam<std::string> {
protected:
    /// Adds values to a checksum that begins with 3, at step 4.
    uint64_t added(const Floats& values, int64_t index, int64_t every) {
        const Buffer data = upload(backend_, values), sum = upload(backend_, std::vector<uint64_t>{3}),
                     counters = upload(backend_, std::vector<Counters>{{.step = 4}});
        Tape tape;
        backend_.checksum({.values = {data.get(), {1, 1, 1, int(values.size())}, DType::f32},
                           .index = index,
                           .sum = static_cast<uint64_t*>(sum.get()),
                           .counters = static_cast<const Counters*>(counters.get()),
                           .every = every},
                          tape);
        run_tape(backend_, std::move(tape));
        return download<uint64_t>(backend_, sum.get(), 1)[0] - 3;
    }
    Backend& backend_ = shared_backend(GetParam());
};

TEST_P(ChecksumOn, IsTheSumOfItsTerms) {
    for (const int count : {1, 3, 255, 5000}) {
        const Floats values = normals(size_t(count), uint64_t(count));
        for (const int64_t index : {0, 16, 1'000'000}) EXPECT_EQ(added(values, index, 1), expected(values, index));
    }
}

TEST_P(ChecksumOn, ChangesWithEveryBitAndPlace) {
    Floats values = normals(300, 4);
    const uint64_t sum = added(values, 0, 1);
    for (int bit = 0; bit < 32; ++bit) {
        Floats flipped = values;
        flipped[77] = std::bit_cast<float>(std::bit_cast<uint32_t>(flipped[77]) ^ 1u << bit);
        EXPECT_NE(added(flipped, 0, 1), sum) << bit;
    }
    std::swap(values[3], values[4]);
    EXPECT_NE(added(values, 0, 1), sum);
}

// Step 4 is the fifth.
TEST_P(ChecksumOn, IsAddedToInAuditedStepsOnly) {
    const Floats values = normals(100, 6);
    EXPECT_EQ(added(values, 0, 5), expected(values, 0));
    EXPECT_EQ(added(values, 0, 4), 0u);
    EXPECT_EQ(added(values, 0, 50), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, ChecksumOn, testing::ValuesIn(test_devices()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
