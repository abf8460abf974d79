// The order of a stream: blocks of runs, and samples within a block.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "plan/stream_order.h"

namespace convoy::test {
namespace {

/// Returns `count` runs of 3 to 9 rows of 10 bytes.
std::vector<RowRun> uneven_runs(int count) {
    std::vector<RowRun> runs;
    int64_t row = 0;
    for (int i = 0; i < count; ++i) {
        const int64_t rows = 3 + i * 5 % 7;
        runs.push_back({row, rows, size_t(rows) * 10});
        row += rows;
    }
    return runs;
}

std::vector<int32_t> counted(size_t n) {
    std::vector<int32_t> all(n);
    std::iota(all.begin(), all.end(), 0);
    return all;
}

std::vector<int32_t> sorted(std::vector<int32_t> values) {
    std::sort(values.begin(), values.end());
    return values;
}

TEST(StreamOrder, BlocksAreAllRunsOnceAndNearlyEqual) {
    for (const size_t block : {1, 50, 400, 2000, 100'000}) {
        const StreamOrder order(uneven_runs(200), block);
        const int64_t all = order.runs().back().first + order.runs().back().count,
                      most = int64_t(all * 10 / order.blocks()) + 90;  // the largest run has 90 bytes
        EXPECT_EQ(order.blocks(), std::min<int64_t>(200, (all * 10 + int64_t(block) - 1) / int64_t(block)));
        for (const bool shuffled : {false, true}) {
            const StreamOrder::Epoch e = order.epoch({shuffled, 7}, 3);
            EXPECT_EQ(sorted(e.runs), counted(200));
            EXPECT_EQ(e.runs == counted(200), !shuffled);
            ASSERT_EQ(int64_t(e.first_run.size()), order.blocks() + 1);
            EXPECT_EQ(e.first_run.front(), 0);
            EXPECT_EQ(e.first_run.back(), 200);
            EXPECT_EQ(e.first_sample.back(), all);
            for (int64_t b = 0; b < order.blocks(); ++b) {
                int64_t rows = 0;
                for (int32_t i = e.first_run[b]; i < e.first_run[size_t(b) + 1]; ++i)
                    rows += order.runs()[e.runs[i]].count;
                EXPECT_EQ(e.first_sample[size_t(b) + 1] - e.first_sample[b], rows);
                EXPECT_LE(rows * 10, most) << block;
                EXPECT_LE(size_t(rows) * 10, order.most_block_bytes());
            }
        }
    }
}

TEST(StreamOrder, ItDependsOnSeedEpochAndBlockAlone) {
    const StreamOrder order(uneven_runs(100), 500);
    const auto runs = [&](uint64_t seed, uint32_t epoch) { return order.epoch({true, seed}, epoch).runs; };
    EXPECT_EQ(runs(1, 0), runs(1, 0));
    EXPECT_NE(runs(1, 0), runs(1, 1));
    EXPECT_NE(runs(1, 0), runs(2, 0));
    const auto within = [](uint64_t seed, uint32_t epoch, int64_t block) {
        return StreamOrder::order_within({true, seed}, epoch, block, 300);
    };
    EXPECT_EQ(sorted(within(1, 0, 0)), counted(300));
    EXPECT_EQ(within(1, 0, 0), within(1, 0, 0));
    EXPECT_NE(within(1, 0, 0), within(1, 0, 1));
    EXPECT_NE(within(1, 0, 0), within(1, 1, 0));
    EXPECT_NE(within(1, 0, 0), within(2, 0, 0));
    EXPECT_EQ(StreamOrder::order_within({}, 0, 5, 300), counted(300));
}

// A resumed run draws the same order only while these values stay.
TEST(StreamOrder, ItIsPinned) {
    const StreamOrder order(uneven_runs(10), 200);
    EXPECT_EQ(order.epoch({true, 1}, 0).runs, (std::vector<int32_t>{7, 2, 3, 9, 0, 6, 5, 8, 1, 4}));
    EXPECT_EQ(StreamOrder::order_within({true, 1}, 0, 1, 8), (std::vector<int32_t>{5, 0, 7, 6, 2, 1, 3, 4}));
}

// Rows sorted by class: 1,000 classes of 1,280 images of 256 x 256 pixels in chunks of five. The
// expected number of distinct classes in 256 random draws is 1000 (1 - (1 - 1/1000)^256) = 226.
TEST(StreamOrder, ABatchOfASortedSetHasNearlyAsManyClassesAsARandomOne) {
    constexpr int64_t classes = 1000, images = 1280, rows = 5, bytes = 256 * 256 * 3;
    std::vector<RowRun> runs;
    for (int64_t row = 0; row < classes * images; row += rows) runs.push_back({row, rows, size_t(rows * bytes)});
    const StreamOrder order(runs, stream_block_bytes(0, size_t(classes * images * bytes)));
    ASSERT_EQ(order.blocks(), 16);
    const StreamOrder::Epoch e = order.epoch({true, 1}, 0);
    double distinct = 0, batches = 0;
    for (int64_t b = 0; b < order.blocks(); ++b) {
        const int64_t first = e.first_sample[b], count = e.first_sample[size_t(b) + 1] - first;
        const std::vector<int32_t> within = StreamOrder::order_within({true, 1}, 0, b, count);
        for (int64_t at = 0; at + 256 <= count; at += 256, ++batches) {
            std::set<int64_t> seen;
            for (int64_t i = at; i < at + 256; ++i) {
                const int64_t place = within[i], run = e.first_run[b] + place / rows;
                seen.insert((order.runs()[e.runs[run]].first + place % rows) / images);
            }
            distinct += double(seen.size());
        }
    }
    EXPECT_GE(distinct / batches, 0.98 * 226);
    EXPECT_LE(distinct / batches, 226.5);
}

}  // namespace
}  // namespace convoy::test
