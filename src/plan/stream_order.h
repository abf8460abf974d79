// The order of samples where a data set is read from disk in a moving window: its runs of rows are
// permuted over the whole set and cut into blocks, and the rows of a block are permuted among
// themselves. A function of the data set, the seed and the epoch: no number of ranks changes it.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/split.h"

namespace convoy {

/// Rows that are read at once, in order, and the bytes of their pixels.
struct RowRun {
    int64_t first, count;
    size_t bytes;
};

/// How samples are dealt to an epoch's steps.
struct SampleOrder {
    bool shuffled = false;  ///< else in the order of the split
    uint64_t seed = 0;

    bool operator==(const SampleOrder&) const = default;
};

/// Bytes of a block of a split of so many: what was asked for, or a sixteenth, but 32 MiB at least.
inline size_t stream_block_bytes(size_t asked, size_t all) {
    constexpr size_t least = size_t(32) << 20;
    return asked > 0 ? asked : std::max(least, all / 16);
}

class StreamOrder {
public:
    /// Blocks of about `block_bytes`, all but equal; at least one an epoch.
    StreamOrder(std::vector<RowRun> runs, size_t block_bytes);

    const std::vector<RowRun>& runs() const { return runs_; }
    int64_t blocks() const { return blocks_; }  ///< an epoch, every one of them
    /// The most bytes of pixels that a block can have.
    size_t most_block_bytes() const { return most_block_bytes_; }
    size_t most_run_bytes() const { return most_run_bytes_; }
    /// Bytes that every block has, at least.
    size_t least_block_bytes() const;

    struct Epoch {
        std::vector<int32_t> runs;          ///< in the order in which they are read
        std::vector<int32_t> first_run;     ///< [blocks + 1] the first of each block, in `runs`
        std::vector<int64_t> first_sample;  ///< [blocks + 1] positions in the order of samples
    };
    Epoch epoch(const SampleOrder&, uint32_t epoch) const;
    /// The block's samples in the order in which they are trained on, each as its place among the
    /// rows of the block's runs, one run after the other: a permutation of [0, rows).
    static std::vector<int32_t> order_within(const SampleOrder&, uint32_t epoch, int64_t block, int64_t rows);

private:
    std::vector<RowRun> runs_;
    size_t bytes_ = 0, most_run_bytes_ = 0, most_block_bytes_ = 0;
    int64_t blocks_ = 1;
};

}  // namespace convoy
