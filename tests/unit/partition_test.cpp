// The rows of a partition in the order of an epoch, on one rank.
#include "supply/partition.h"

#include <gtest/gtest.h>

#include "plan/split.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

// A run may start the same epoch again with the order of another seed.
TEST(Partitions, EachBeginningHasItsOwnOrder) {
    SplitInfo info;
    info.images = 50;
    info.height = info.width = 2;
    info.channels = 1;
    const RowShapes shapes(info);
    Partition partition(test_comm(), shapes, false, [](int64_t first, int64_t rows, uint8_t* images) {
        for (int64_t i = 0; i < rows * 4; ++i) images[i] = uint8_t(first + i / 4);
    });
    const auto samples = [&](int64_t epoch) {
        std::vector<int32_t> all;
        for (const int64_t first : {0, 20}) {
            for (const StoredRow& row : partition.rows(epoch, first, first == 0 ? 20 : 30)) {
                EXPECT_EQ(partition.memory()[row.offset], uint8_t(row.sample));
                all.push_back(row.sample);
            }
        }
        return all;
    };
    for (const uint64_t seed : {1, 2})
        for (const int64_t epoch : {0, 1}) {
            partition.begin({.shuffled = true, .seed = seed}, epoch, 0, 2);
            EXPECT_EQ(samples(epoch), permutation(50, seed, uint32_t(epoch))) << seed << ", " << epoch;
        }
    partition.begin({.shuffled = true, .seed = 1}, 1, 0, 2);
    EXPECT_EQ(samples(1), permutation(50, 1, 1)) << "the same epoch of another seed was the last";
    partition.begin({.shuffled = false, .seed = 1}, 1, 0, 2);
    EXPECT_EQ(samples(1).at(7), 7);
}

}  // namespace
}  // namespace convoy::test
