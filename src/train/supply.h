// The batches of a split that no device holds: each rank's share of a step's batch is put together
// in host memory while the steps before it run. What other nodes have of it comes in one message
// from each. Both sides know the order of samples: nothing is asked for.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "backend/augment.h"
#include "backend/backend.h"
#include "backend/feed.h"
#include "comm/exchange.h"
#include "train/row_store.h"

namespace convoy {

/// Which samples a step takes.
struct BatchPlan {
    EpochPlan epoch;
    int64_t global_batch = 0;
    SampleOrder order;
    bool mixes = false;   ///< a rank's share ends with the partner of its last sample
    int64_t logical = 0;  ///< logical ranks that a batch is dealt to; 0: the ranks themselves

    Dealing dealing(int ranks) const { return {logical > 0 ? logical : ranks, ranks}; }
};

class Supply {
public:
    /// The lines of an image [height, width] that a step of `epoch` reads.
    using Shown = std::function<Lines(int64_t epoch, int32_t sample, int height, int width)>;
    /// Collective. `store` null: of programs that are built and not run. `labels` [N], on the host;
    /// all must outlive it.
    Supply(Comm&, Backend&, RowStore* store, const RowShapes&, const int32_t* labels, const BatchPlan&, Shown);

    ~Supply();  ///< collective, except when an exception destroys it
    Supply(const Supply&) = delete;

    /// Allocates what batches are put together in. Throws Exit::out_of_memory.
    void build();
    /// Once it is built.
    const StagedBatch* batch() const { return feed_->batch(); }
    /// Collective: the next step is `step`, the last one the one before `end`. Steps of all epochs
    /// are numbered from 0.
    void begin(int64_t step, int64_t end);
    int64_t step() const { return step_; }
    /// Collective, before each step is launched: its batch is there. Throws Exit::bad_input, on any
    /// rank, for what is damaged on disk.
    void next();

private:
    static constexpr int ahead = 2;  // steps

    struct Item;
    void post(int64_t step);
    std::vector<Item> items_of(int64_t epoch, const std::vector<StoredRow>& rows, int rank) const;
    std::vector<Exchange::Message> fill(const std::vector<Item>&);
    std::vector<Exchange::Message> pack(int64_t step, int64_t epoch, const std::vector<StoredRow>& rows);

    Comm& comm_;
    Backend& backend_;
    RowStore* const store_;
    const RowShapes& shapes_;
    const int32_t* const labels_;
    const BatchPlan plan_;
    const Shown shown_;
    // Messages on their way are in these two, until the exchange has ended.
    std::unique_ptr<Feed> feed_;
    std::unique_ptr<std::array<std::vector<std::vector<uint8_t>>, ahead + 1>> packed_;  // by step
    std::unique_ptr<Exchange> exchange_;
    const int exceptions_;
    int64_t step_ = -1, posted_ = 0, end_ = 0;
};

}  // namespace convoy
