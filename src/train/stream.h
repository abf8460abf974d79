// A split that is read from disk in a moving window: a block is trained on while the next is read.
// Each rank reads its share of a block's pieces into the memory of its node, so all nodes together
// hold two blocks.
#pragma once
#include <array>
#include <memory>
#include <optional>

#include "data/split_pieces.h"
#include "train/piece_loader.h"
#include "train/row_store.h"

namespace convoy {

/// The blocks of a split.
struct StreamBlocks {
    std::shared_ptr<const SplitPieces> pieces;
    StreamOrder order;

    /// `block_bytes` as stream_block_bytes() is asked for them.
    StreamBlocks(std::shared_ptr<const SplitPieces> pieces, const RowShapes&, size_t block_bytes);
    /// Throws Exit::usage if a global batch may need more than two blocks, which are all that are
    /// held.
    void check_batch(const RowShapes&, int64_t global_batch) const;
    /// Bytes of memory of `ranks` ranks that share it, of `all` ranks: both blocks.
    size_t memory(int ranks, int all) const;
};

class Stream : public RowStore {
public:
    /// Collective. `threads` read; ranks of a node share its part, if `share`. Throws
    /// Exit::out_of_memory if a node cannot hold its part of two blocks. `shapes` must outlive it.
    Stream(Comm&, const RowShapes& shapes, bool share, StreamBlocks, int threads);

    const Groups& groups() const override { return groups_; }
    const uint8_t* memory() const override { return reinterpret_cast<const uint8_t*>(memory_->data()); }
    void check_batch(int64_t samples) const override { blocks_.check_batch(shapes_, samples); }
    void begin(const SampleOrder&, int64_t epoch, int64_t first, int64_t end) override;
    std::vector<StoredRow> rows(int64_t epoch, int64_t first, int64_t count) override;

private:
    /// One that is being read, or held. Blocks are numbered through all epochs.
    struct Block {
        int64_t number, first, end;   ///< positions in its epoch: [first, end)
        std::vector<StoredRow> rows;  ///< in the order in which they are trained on
        bool whole = false;           ///< all ranks of the group have read their shares
    };
    std::vector<PieceLoader::Job> deal(const StreamOrder::Epoch&, Block&) const;
    /// Begins to read block `number` into the half of the memory that is its own.
    void read(int64_t number);
    /// The block, once it is whole.
    const Block& held(int64_t number);
    /// Collective in the group: nothing before block `number` is read from any more.
    void pass_to(int64_t number);
    const StreamOrder::Epoch& epoch(int64_t epoch);
    int64_t number_of(int64_t epoch, int64_t position);

    Comm& comm_;
    const RowShapes& shapes_;
    const StreamBlocks blocks_;
    Groups groups_;
    std::vector<int> seat_group_;  // [ranks] the group of each seat
    int seat_ = 0;
    std::unique_ptr<SharedBlock> memory_;
    std::vector<size_t> half_bytes_;  // [groups]
    SampleOrder order_;
    int64_t first_ = -1, end_ = 0;  // the oldest block that is held, the first that is not wanted
    std::array<std::optional<Block>, 2> held_;
    std::array<std::pair<int64_t, StreamOrder::Epoch>, 2> epochs_{{{-1, {}}, {-1, {}}}};
    PieceLoader loader_;  // last: its threads write to the memory
};

}  // namespace convoy
