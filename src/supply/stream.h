// Reads a split from disk in a moving window: while a block is trained on, the next one is read.
// Each rank reads its share of a block's pieces into the memory of its node. All nodes together
// hold two blocks.
#pragma once
#include <array>
#include <memory>
#include <optional>

#include "data/split_pieces.h"
#include "supply/piece_loader.h"
#include "supply/row_store.h"

namespace convoy {

/// The blocks of a split.
struct StreamBlocks {
    std::shared_ptr<const SplitPieces> pieces;
    StreamOrder order;

    /// `block_bytes`: wanted size of a block, as in stream_block_bytes().
    StreamBlocks(std::shared_ptr<const SplitPieces> pieces, const RowShapes&, size_t block_bytes);
    /// Throws Exit::usage if a global batch may need images of more than the two blocks that are
    /// held.
    void check_batch(const RowShapes&, int64_t global_batch) const;
    /// Returns the bytes that a group of `ranks` ranks needs for its part of both blocks. `all`:
    /// number of all ranks.
    size_t memory(int ranks, int all) const;
};

class Stream : public RowStore {
public:
    /// Collective. `share`: ranks of a node share its part. `threads`: number of reading threads.
    /// Throws Exit::out_of_memory if a node cannot hold its part of two blocks. `shapes` must
    /// outlive it.
    Stream(Comm&, const RowShapes& shapes, bool share, StreamBlocks, int threads);

    const Groups& groups() const override { return groups_; }
    const uint8_t* memory() const override { return reinterpret_cast<const uint8_t*>(memory_->data()); }
    void check_batch(int64_t samples) const override { blocks_.check_batch(shapes_, samples); }
    void begin(const SampleOrder&, int64_t epoch, int64_t first, int64_t end) override;
    std::vector<StoredRow> rows(int64_t epoch, int64_t first, int64_t count) override;

private:
    /// A block that is being read, or is held. Numbers count the blocks of all epochs.
    struct Block {
        int64_t number, first, end;   ///< it has the positions [first, end) of its epoch
        std::vector<StoredRow> rows;  ///< in the order of training
        bool whole = false;           ///< all ranks of the group have read their shares
    };
    std::vector<PieceLoader::Job> deal(const StreamOrder::Epoch&, Block&) const;
    /// Starts reading block `number` into its half of the memory.
    void read(int64_t number);
    /// Waits until a block is whole, and returns it.
    const Block& held(int64_t number);
    /// Collective in the group. Releases the blocks before `number`, and starts reading others.
    void pass_to(int64_t number);
    const StreamOrder::Epoch& epoch(int64_t epoch);
    int64_t number_of(int64_t epoch, int64_t position);

    Comm& comm_;
    const RowShapes& shapes_;
    const StreamBlocks blocks_;
    Groups groups_;
    std::vector<int> seat_group_;  // [ranks] the group of each seat; seats number the ranks by group
    int seat_ = 0;
    std::unique_ptr<SharedBlock> memory_;
    std::vector<size_t> half_bytes_;  // [groups]
    SampleOrder order_;
    int64_t first_ = -1, end_ = 0;  // number of the oldest held block; number of the first block that is not needed
    std::array<std::optional<Block>, 2> held_;
    std::array<std::pair<int64_t, StreamOrder::Epoch>, 2> epochs_{{{-1, {}}, {-1, {}}}};
    PieceLoader loader_;  // last, because its threads write to memory_
};

}  // namespace convoy
