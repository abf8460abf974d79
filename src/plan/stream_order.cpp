#include "plan/stream_order.h"

#include <numeric>
#include <utility>

namespace convoy {
namespace {

/// Returns 0 to n - 1, permuted if `by.shuffled`.
std::vector<int32_t> ordered(int64_t n, const SampleOrder& by, uint32_t epoch, Purpose purpose, uint32_t stream) {
    if (by.shuffled) return permutation(n, by.seed, epoch, purpose, stream);
    std::vector<int32_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    return order;
}

}  // namespace

StreamOrder::StreamOrder(std::vector<RowRun> runs, size_t block_bytes) : runs_(std::move(runs)) {
    for (const RowRun& run : runs_) {
        bytes_ += run.bytes;
        most_run_bytes_ = std::max(most_run_bytes_, run.bytes);
    }
    blocks_ = std::max<int64_t>(1, int64_t((bytes_ + block_bytes - 1) / std::max<size_t>(1, block_bytes)));
    blocks_ = std::min<int64_t>(blocks_, std::max<int64_t>(1, int64_t(runs_.size())));
    most_block_bytes_ = std::min(bytes_, (bytes_ + size_t(blocks_) - 1) / size_t(blocks_) + most_run_bytes_);
}

size_t StreamOrder::least_block_bytes() const {
    const size_t share = bytes_ / size_t(blocks_);
    return blocks_ == 1 ? bytes_ : share - std::min(share, most_run_bytes_);
}

// Each block covers an equal share of the epoch's bytes. A run belongs to the block it begins in.
StreamOrder::Epoch StreamOrder::epoch(const SampleOrder& order, uint32_t epoch) const {
    Epoch e;
    const auto count = int64_t(runs_.size());
    e.runs = ordered(count, order, epoch, purpose_stream_runs, 0);
    size_t bytes = 0;
    int64_t samples = 0;
    for (int64_t i = 0; i < count; ++i) {
        const RowRun& run = runs_[e.runs[i]];
        while (int64_t(e.first_run.size()) < blocks_ &&
               double(bytes) >= double(bytes_) * double(e.first_run.size()) / double(blocks_)) {
            e.first_run.push_back(int32_t(i));
            e.first_sample.push_back(samples);
        }
        bytes += run.bytes;
        samples += run.count;
    }
    e.first_run.resize(size_t(blocks_) + 1, int32_t(count));
    e.first_sample.resize(size_t(blocks_) + 1, samples);
    return e;
}

std::vector<int32_t> StreamOrder::order_within(const SampleOrder& order, uint32_t epoch, int64_t block, int64_t rows) {
    return ordered(rows, order, epoch, purpose_stream_rows, uint32_t(block));
}

}  // namespace convoy
