// The order of samples of a data set that is read from disk in a moving window. Runs of rows are
// permuted over the whole set and cut into blocks; then the rows within each block are permuted.
// The order depends on the data set, the seed and the epoch, never on the number of ranks.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/split.h"

namespace convoy {

/// Consecutive rows that are read at once, and the bytes of their pixels.
struct RowRun {
    int64_t first, count;
    size_t bytes;
};

/// How the samples of an epoch are ordered.
struct SampleOrder {
    bool shuffled = false;  ///< false: in the order of the split
    uint64_t seed = 0;

    bool operator==(const SampleOrder&) const = default;
};

/// Returns the bytes of a block of a split of `all` bytes: `asked`, or the default if `asked` is 0.
/// The default is a sixteenth of `all`, but at least 32 MiB.
inline size_t stream_block_bytes(size_t asked, size_t all) {
    constexpr size_t least = size_t(32) << 20;
    return asked > 0 ? asked : std::max(least, all / 16);
}

class StreamOrder {
public:
    /// Cuts the runs into nearly equal blocks of about `block_bytes`; at least one per epoch.
    StreamOrder(std::vector<RowRun> runs, size_t block_bytes);

    const std::vector<RowRun>& runs() const { return runs_; }
    int64_t blocks() const { return blocks_; }  ///< per epoch; the same in every epoch
    /// Returns an upper bound for the bytes of pixels of a block.
    size_t most_block_bytes() const { return most_block_bytes_; }
    size_t most_run_bytes() const { return most_run_bytes_; }
    /// Returns a lower bound for the bytes of pixels of a block.
    size_t least_block_bytes() const;

    struct Epoch {
        std::vector<int32_t> runs;          ///< indices of runs, in the order in which they are read
        std::vector<int32_t> first_run;     ///< [blocks + 1] index in `runs` of each block's first run
        std::vector<int64_t> first_sample;  ///< [blocks + 1] position of each block's first sample
    };
    Epoch epoch(const SampleOrder&, uint32_t epoch) const;
    /// Returns the block's samples in training order: a permutation of [0, rows). A sample's number
    /// is its index among the rows of the block's runs, taken one run after the other.
    static std::vector<int32_t> order_within(const SampleOrder&, uint32_t epoch, int64_t block, int64_t rows);

private:
    std::vector<RowRun> runs_;
    size_t bytes_ = 0, most_run_bytes_ = 0, most_block_bytes_ = 0;
    int64_t blocks_ = 1;
};

}  // namespace convoy
