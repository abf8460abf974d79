// Assembles batches of a split that no device holds: each rank's share, in host memory, while
// earlier steps run. Each other node sends its images of the share in one message. There are no
// requests, because both sides know the order of samples.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/feed.h"
#include "comm/exchange.h"
#include "ops/augment.h"
#include "ops/checksum.h"
#include "supply/row_store.h"

namespace convoy {

/// The samples of each step.
struct BatchOrder {
    EpochSteps epoch;
    int64_t global_batch = 0;
    SampleOrder order;
    bool mixes = false;   ///< a rank's share ends with the partner of its last sample
    int64_t logical = 0;  ///< number of logical ranks that share a batch; 0: the number of ranks
    /// every this many steps, a rank also gets the shares of ranks before it, to audit; 0: never
    int64_t audit_every = 0;

    BatchSplit batch_split(int ranks) const { return {logical > 0 ? logical : ranks, ranks}; }
    /// Returns the rows of a rank's share of a batch of n samples, with the partner of its last
    /// sample.
    Share rows_of(int64_t n, int rank, int ranks) const {
        const Share share = batch_split(ranks).samples_of(n, rank);
        return {share.first, share.count + (mixes && share.count > 0 ? 1 : 0)};
    }
    /// Returns the number of ranks whose shares a rank also gets at an audited step.
    int audited_ranks(int ranks) const { return audit_every > 0 ? std::min(ranks - 1, 2) : 0; }
};

class Supply {
public:
    /// Returns the lines of an image [height, width] that a step of `epoch` reads.
    using Shown = std::function<Lines(int64_t epoch, int32_t sample, int height, int width)>;
    /// Collective. `store` null: for programs that are built and not run. `labels` [N] lie on the
    /// host. All arguments but the last two, which are copied, must outlive it.
    Supply(Comm&, Backend&, RowStore* store, const RowShapes&, const int32_t* labels, const BatchOrder&, Shown);

    ~Supply();  ///< collective, except when an exception destroys it
    Supply(const Supply&) = delete;

    /// Allocates the buffers for batches. Throws Exit::out_of_memory.
    void build();
    /// Returns the batch that steps read; call after build().
    const StagedBatch* batch() const { return feed_->batch(); }
    /// Collective. Prepares steps [step, end), numbered from 0 through all epochs.
    void begin(int64_t step, int64_t end);
    int64_t step() const { return step_; }
    /// Collective. Waits until the next step's batch is ready; call before launching it. Throws
    /// Exit::bad_input, on any rank, if data on disk is damaged.
    void next();

private:
    static constexpr int ahead = 2;  // steps whose batches are assembled in advance

    struct Item;
    void post(int64_t step);
    std::vector<Item> items_of(int64_t step, const std::vector<StoredRow>& rows, int rank) const;
    std::vector<Exchange::Message> fill(const std::vector<Item>&);
    std::vector<Exchange::Message> pack(int64_t step, const std::vector<StoredRow>& rows);

    Comm& comm_;
    Backend& backend_;
    RowStore* const store_;
    const RowShapes& shapes_;
    const int32_t* const labels_;
    const BatchOrder batches_;
    const Shown shown_;
    // Buffers of messages in flight: these two must outlive exchange_.
    std::unique_ptr<Feed> feed_;
    std::unique_ptr<std::array<std::vector<std::vector<uint8_t>>, ahead + 1>> packed_;  // [step % (ahead + 1)]
    std::unique_ptr<Exchange> exchange_;
    const int exceptions_;
    int64_t step_ = -1, posted_ = 0, end_ = 0;
};

}  // namespace convoy
