// The memory layout, and the gradient buckets.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/philox.h"
#include "plan/buckets.h"
#include "plan/memory.h"

namespace convoy::test {
namespace {

/// A seeded stream of integers.
struct Draws {
    uint64_t seed;
    uint32_t at = 0;
    uint32_t below(uint32_t n) { return uniform_below(philox(seed, at++, 0, 0, 0).word[0], n); }
};

bool together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

TEST(Plan, NoTwoLiveBuffersOverlap) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        Draws draws{seed};
        const int events = 1 + int(draws.below(60));
        std::vector<Lifetime> buffers(draws.below(80));
        for (Lifetime& b : buffers) {
            const int first = int(draws.below(uint32_t(events)));
            b = {draws.below(4) ? draws.below(5000) : 0, first, first + int(draws.below(uint32_t(events - first)))};
        }
        const MemoryLayout layout = lay_out_memory(buffers);
        ASSERT_EQ(layout.offset.size(), buffers.size());
        size_t sum = 0, at_once = 0;
        for (size_t i = 0; i < buffers.size(); ++i) {
            sum += (buffers[i].bytes + 63) / 64 * 64;
            ASSERT_EQ(layout.offset[i] % 64, 0u);
            ASSERT_LE(layout.offset[i] + buffers[i].bytes, layout.bytes);
            for (size_t j = 0; j < i; ++j)
                ASSERT_TRUE(!together(buffers[i], buffers[j]) ||
                            layout.offset[i] + buffers[i].bytes <= layout.offset[j] ||
                            layout.offset[j] + buffers[j].bytes <= layout.offset[i])
                    << "seed " << seed << ": buffers " << i << " and " << j;
        }
        for (int event = 0; event < events; ++event) {
            size_t live = 0;
            for (const Lifetime& b : buffers) live += b.first <= event && event <= b.last ? b.bytes : 0;
            at_once = std::max(at_once, live);
        }
        EXPECT_LE(at_once, layout.bytes);
        EXPECT_LE(layout.bytes, sum);
    }
}

TEST(Plan, BuffersOneAfterTheOtherShareMemory) {
    EXPECT_EQ(lay_out_memory({{1000, 0, 1}, {1000, 2, 3}, {64, 4, 9}}).bytes, 1024u);
    EXPECT_EQ(lay_out_memory({{1000, 0, 2}, {1000, 2, 3}}).bytes, 2048u) << "both live during event 2";
    EXPECT_EQ(lay_out_memory({}).bytes, 0u);
}

TEST(Plan, BucketsCoverTheArenaInOrder) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        Draws draws{seed};
        std::vector<size_t> counts(1 + draws.below(50)), ends;
        size_t total = 0;
        for (size_t& c : counts) ends.push_back(total += c = 1 + draws.below(1000));
        const size_t target = 1 + draws.below(3000);
        const std::vector<Bucket> buckets = cut_buckets(counts, target);
        ASSERT_FALSE(buckets.empty());
        size_t at = 0;
        for (size_t i = 0; i < buckets.size(); ++i) {
            ASSERT_EQ(buckets[i].begin, at);
            ASSERT_TRUE(std::binary_search(ends.begin(), ends.end(), buckets[i].end))
                << "a bucket ends where a gradient ends";
            at = buckets[i].end;
            const size_t least = i + 1 < buckets.size() || buckets.size() == 1 ? std::min(target, total) : target / 4;
            ASSERT_GE(buckets[i].end - buckets[i].begin, least) << "seed " << seed;
        }
        ASSERT_EQ(at, total);
    }
}

std::vector<size_t> sizes(const std::vector<Bucket>& buckets) {
    std::vector<size_t> all;
    for (const Bucket& b : buckets) all.push_back(b.end - b.begin);
    return all;
}

TEST(Plan, ASmallTailOfBucketsJoinsItsNeighbour) {
    EXPECT_EQ(sizes(cut_buckets({60, 50, 100, 24}, 100)), (std::vector<size_t>{110, 124}));
    EXPECT_EQ(sizes(cut_buckets({60, 50, 100, 25}, 100)), (std::vector<size_t>{110, 100, 25}));
    EXPECT_EQ(sizes(cut_buckets({3}, 100)), (std::vector<size_t>{3}));
    EXPECT_EQ(sizes(cut_buckets({1, 2, 3}, 1)), (std::vector<size_t>{1, 2, 3}));
}

}  // namespace
}  // namespace convoy::test
