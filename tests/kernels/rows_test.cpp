// The walk over rows that kernels share (kernels/rows.cuh): which rows, in which order, and how
// many are fetched before the first is used.
#include "tests/kernels/fibers/cuda_on_host.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <vector>

#include "kernels/rows.cuh"

namespace convoy::test {
namespace {

/// Accesses of one thread, in order.
struct Walk {
    std::vector<int64_t> fetched, used;
    std::vector<size_t> ahead;  ///< for each use: number of rows fetched and not used yet
};

template <int R> __global__ void walk(int64_t rows, Walk* threads) {
    Walk& mine = threads[blockIdx.x * blockDim.y + threadIdx.y];
    const auto fetch = [&](int64_t row) {
        mine.fetched.push_back(row);
        return row * 10;
    };
    kernels::each_row<R>(rows, fetch, [&](int64_t row, int64_t raw) {
        EXPECT_EQ(raw, row * 10);
        mine.ahead.push_back(mine.fetched.size() - mine.used.size());
        mine.used.push_back(row);
    });
}

template <int R> void expect_walk(int64_t rows, unsigned chunks, unsigned y) {
    SCOPED_TRACE(std::to_string(rows) + " rows in " + std::to_string(chunks) + " chunks by " + std::to_string(y));
    std::vector<Walk> threads(chunks * y);
    kernels::launch(walk<R>, dim3(chunks), dim3(1, y), 0, nullptr, rows, threads.data());
    std::vector<int> visits(size_t(rows), 0);
    for (const Walk& t : threads) {
        EXPECT_EQ(t.used, t.fetched);
        for (size_t i = 0; i < t.used.size(); ++i) {
            ++visits.at(size_t(t.used[i]));
            if (i > 0) {
                EXPECT_EQ(t.used[i], t.used[i - 1] + y);
            }
        }
        // Whole batches of R come first, each used from the first row to the last.
        for (size_t i = 0; i + R <= t.used.size() / R * R; i += R)
            for (size_t r = 0; r < R; ++r) EXPECT_EQ(t.ahead[i + r], R - r);
    }
    EXPECT_EQ(visits, std::vector<int>(size_t(rows), 1));
}

TEST(KernelRows, EachIsUsedOnceInOrderWithSeveralInFlight) {
    for (int64_t rows = 0; rows < 70; ++rows)
        for (const unsigned chunks : {1u, 2u, 3u})
            for (const unsigned y : {1u, 2u, 5u}) {
                expect_walk<1>(rows, chunks, y);
                expect_walk<2>(rows, chunks, y);
                expect_walk<4>(rows, chunks, y);
            }
}

// The chunks decide the order of a sum. A chunk has at least 64 rows, and there are at most two
// chunks for each of an H100's 132 SMs, on any chip.
TEST(KernelRows, ChunksOfASumDependOnTheRowsAlone) {
    for (const auto& [rows, chunks] :
         {std::pair<int64_t, int64_t>{1, 1}, {64, 1}, {65, 2}, {12544, 196}, {3211264, 264}})
        EXPECT_EQ(kernels::sum_chunks(rows), chunks) << rows;
}

}  // namespace
}  // namespace convoy::test
