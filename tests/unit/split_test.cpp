// Shares of ranks, steps per epoch, and the order of samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan/split.h"

namespace convoy::test {
namespace {

TEST(Split, SharesCoverAndDifferByAtMostOne) {
    for (const int64_t parts : {1, 2, 3, 7, 64})
        for (const int64_t n : {0, 1, 6, 7, 63, 1000}) {
            int64_t at = 0;
            for (int64_t i = 0; i < parts; ++i) {
                const Share s = share_of(n, parts, i);
                EXPECT_EQ(s.first, at);
                EXPECT_TRUE(s.count == n / parts || s.count == n / parts + 1);
                at += s.count;
            }
            EXPECT_EQ(at, n);
        }
    EXPECT_EQ(share_of(10, 4, 1).count, 3) << "the first shares are the larger ones";
    EXPECT_EQ(share_of(10, 4, 2).count, 2);
}

// A sample's logical rank does not depend on the number of ranks.
TEST(Split, SplitsABatchOverLogicalRanksInOrder) {
    for (const int64_t n : {1, 7, 12, 50})
        for (int64_t logical = 1; logical <= 7; ++logical)
            for (int64_t ranks = 1; ranks <= logical; ++ranks) {
                const BatchSplit d{logical, ranks};
                int64_t next = 0, sample = 0;
                for (int64_t r = 0; r < ranks; ++r) {
                    const Share mine = d.logical_of(r), samples = d.samples_of(n, r);
                    EXPECT_EQ(mine.first, next);
                    EXPECT_GE(mine.count, 1);
                    EXPECT_EQ(samples.first, sample);
                    int64_t own = 0;
                    for (int64_t i = 0; i < mine.count; ++i) own += n / logical + (mine.first + i < n % logical);
                    EXPECT_EQ(samples.count, own);
                    next += mine.count;
                    sample += samples.count;
                }
                EXPECT_EQ(next, logical);
                EXPECT_EQ(sample, n);
            }
}

TEST(Split, EpochsHaveATailUnlessItIsDropped) {
    EXPECT_EQ(steps_of_epoch(50, 16, false).steps(), 4);
    EXPECT_EQ(steps_of_epoch(50, 16, false).tail, 2);
    EXPECT_EQ(steps_of_epoch(50, 16, true).steps(), 3);
    EXPECT_EQ(steps_of_epoch(48, 16, false).steps(), 3);
    EXPECT_EQ(steps_of_epoch(5, 16, false).steps(), 1);
    EXPECT_EQ(steps_of_epoch(5, 16, true).steps(), 0);
}

// A resumed run and its peers draw the same order only while these values stay.
TEST(Split, ThePermutationIsPinned) {
    EXPECT_EQ(permutation(10, 1, 0), (std::vector<int32_t>{1, 9, 8, 3, 4, 0, 5, 7, 6, 2}));
    EXPECT_EQ(permutation(10, 7, 3), (std::vector<int32_t>{2, 4, 7, 3, 1, 8, 6, 5, 0, 9}));
    const std::vector<int32_t> order = permutation(50000, 1, 0);
    EXPECT_EQ(std::vector<int32_t>(order.begin(), order.begin() + 4),
              (std::vector<int32_t>{21888, 36011, 43947, 4112}));
}

TEST(Split, ThePermutationIsOneAndDiffersByEpochAndSeed) {
    std::vector<int32_t> order = permutation(1000, 1, 0);
    EXPECT_NE(order, permutation(1000, 1, 1));
    EXPECT_NE(order, permutation(1000, 2, 0));
    EXPECT_EQ(order, permutation(1000, 1, 0));
    int at_home = 0;
    for (int i = 0; i < 1000; ++i) at_home += order[i] == i;
    EXPECT_LE(at_home, 8) << "one fixed point is expected";
    std::sort(order.begin(), order.end());
    std::vector<int32_t> all(1000);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
    EXPECT_EQ(permutation(1, 1, 0), std::vector<int32_t>{0});
}

}  // namespace
}  // namespace convoy::test
