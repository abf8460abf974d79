#include "supply/stream.h"

#include <algorithm>

namespace convoy {
namespace {

std::vector<RowRun> runs_of(const SplitPieces& pieces, const RowShapes& shapes) {
    std::vector<RowRun> runs;
    for (const Piece& piece : pieces.all()) {
        const int64_t end = std::min(piece.first + piece.rows, shapes.rows());
        if (piece.first < end) runs.push_back({piece.first, end - piece.first, piece.bytes});
    }
    return runs;
}

/// Returns the order for blocks of the wanted size. If `asked` is 0, a block has room for eight of
/// the largest runs, because runs of image files are large once decoded.
StreamOrder order_of(const SplitPieces& pieces, const RowShapes& shapes, size_t asked) {
    std::vector<RowRun> runs = runs_of(pieces, shapes);
    size_t bytes = stream_block_bytes(asked, size_t(shapes[shapes.rows()].offset));
    for (const RowRun& run : runs)
        if (asked == 0) bytes = std::max(bytes, 8 * run.bytes);
    return StreamOrder(std::move(runs), bytes);
}

/// Returns the function with which one thread reads pieces. It owns the thread's buffers.
PieceLoader::Read reader_of(std::shared_ptr<const SplitPieces> pieces) {
    return [pieces = std::move(pieces), scratch = std::make_shared<SplitPieces::Scratch>()](
               int32_t piece, uint8_t* to) { pieces->read(size_t(piece), to, *scratch); };
}

/// Returns the bytes of a block that `ranks` of `all` ranks hold. A rank has the pieces that begin
/// in its share.
size_t half_bytes(const StreamOrder& order, size_t ranks, int all) {
    return (order.most_block_bytes() * ranks + size_t(all) - 1) / size_t(all) + order.most_run_bytes();
}

}  // namespace

StreamBlocks::StreamBlocks(std::shared_ptr<const SplitPieces> all, const RowShapes& shapes, size_t block_bytes)
    : pieces(std::move(all)), order(order_of(*pieces, shapes, block_bytes)) {}

void StreamBlocks::check_batch(const RowShapes& shapes, int64_t global_batch) const {
    // A block of ragged images may hold fewer images than their mean size suggests, so half as many
    // are counted.
    const size_t margin = shapes.places() ? 2 : 1,
                 images = order.least_block_bytes() / std::max<size_t>(1, shapes.mean_bytes()) / margin;
    if (order.blocks() > 1 && size_t(global_batch) > images)
        fail_everywhere(Exit::usage, "a global batch of " + std::to_string(global_batch) +
                                         " images may need more than two blocks of the stream, which may have only " +
                                         std::to_string(images) + " each; raise --stream-block-mib");
}

size_t StreamBlocks::memory(int ranks, int all) const { return 2 * half_bytes(order, size_t(ranks), all); }

Stream::Stream(Comm& comm, const RowShapes& shapes, bool share, StreamBlocks blocks, int threads)
    : comm_(comm),
      shapes_(shapes),
      blocks_(std::move(blocks)),
      loader_([this] { return reader_of(blocks_.pieces); }, threads) {
    groups_ = SharedBlock::groups(comm, share);
    const std::vector<int> seats = groups_.seats();
    for (size_t seat = 0; seat < seats.size(); ++seat) {
        seat_group_.push_back(groups_.of[seats[seat]]);
        if (seats[seat] == comm.rank()) seat_ = int(seat);
    }
    for (const std::vector<int>& members : groups_.members)
        half_bytes_.push_back(half_bytes(blocks_.order, members.size(), comm.size()));
    memory_ = std::make_unique<SharedBlock>(comm, share, 2 * half_bytes_[groups_.own()],
                                            "this node's part of two blocks of images",
                                            "lower --stream-block-mib, or use fewer ranks per node");
}

const StreamOrder::Epoch& Stream::epoch(int64_t epoch) {
    auto& [known, order] = epochs_[epoch % 2];
    if (known != epoch) {
        order = blocks_.order.epoch(order_, uint32_t(epoch));
        known = epoch;
    }
    return order;
}

int64_t Stream::number_of(int64_t e, int64_t position) {
    const std::vector<int64_t>& first = epoch(e).first_sample;
    return e * blocks_.order.blocks() + (std::upper_bound(first.begin(), first.end() - 1, position) - first.begin()) -
           1;
}

/// Assigns a block's pieces to ranks, and sets the places of its rows. Returns this rank's jobs.
std::vector<PieceLoader::Job> Stream::deal(const StreamOrder::Epoch& e, Block& block) const {
    const auto& runs = blocks_.order.runs();
    const int64_t of_epoch = block.number % blocks_.order.blocks();
    const auto begin = e.runs.begin() + e.first_run[of_epoch], end = e.runs.begin() + e.first_run[size_t(of_epoch) + 1];
    size_t all = 0, at = 0, group_begin = 0;
    for (auto run = begin; run != end; ++run) all += runs[*run].bytes;
    int32_t group = -1;
    std::vector<PieceLoader::Job> mine;
    std::vector<StoredRow> rows;
    for (auto run = begin; run != end; ++run) {
        const RowRun& r = runs[*run];
        const auto seat = int64_t(double(at) * double(seat_group_.size()) / double(all));
        if (seat_group_[seat] != group) {
            group = seat_group_[seat];
            group_begin = at;
        }
        const size_t to = size_t(block.number % 2) * half_bytes_[group] + at - group_begin;
        if (seat == seat_) mine.push_back({*run, reinterpret_cast<uint8_t*>(memory_->data()) + to});
        for (int64_t row = r.first; row < r.first + r.count; ++row)
            rows.push_back({int32_t(row), group, to + size_t(shapes_[row].offset - shapes_[r.first].offset)});
        at += r.bytes;
    }
    const auto order = StreamOrder::order_within(order_, uint32_t(block.number / blocks_.order.blocks()), of_epoch,
                                                 int64_t(rows.size()));
    for (const int32_t i : order) block.rows.push_back(rows[i]);
    return mine;
}

void Stream::read(int64_t number) {
    if (number >= end_) return;
    const StreamOrder::Epoch& e = epoch(number / blocks_.order.blocks());
    const size_t of_epoch = size_t(number % blocks_.order.blocks());
    Block block{number, e.first_sample[of_epoch], e.first_sample[of_epoch + 1], {}};
    const std::vector<PieceLoader::Job> jobs = deal(e, block);
    held_[number % 2] = std::move(block);
    loader_.add(number, jobs);
}

void Stream::begin(const SampleOrder& order, int64_t e, int64_t first, int64_t end) {
    const bool same_order = order == order_;
    if (!same_order) epochs_ = {{{-1, {}}, {-1, {}}}};
    order_ = order;
    end_ = end * blocks_.order.blocks();
    const int64_t number = number_of(e, first);
    if (same_order && number == first_) {
        if (!held_[(number + 1) % 2] || held_[(number + 1) % 2]->number != number + 1) read(number + 1);
        return;
    }
    loader_.cancel();
    memory_->barrier();  // no rank of the group writes or reads the memory any more
    held_ = {};
    first_ = number;
    read(number);
    read(number + 1);
}

const Stream::Block& Stream::held(int64_t number) {
    std::optional<Block>& block = held_[number % 2];
    require(block && block->number == number, "a batch has images of two blocks at most");
    if (!block->whole) {
        const Doing doing(comm_.activity(), "waiting for images from disk");
        loader_.wait(number);
        memory_->barrier();
        block->whole = true;
    }
    return *block;
}

void Stream::pass_to(int64_t number) {
    for (; first_ < number; ++first_) {
        held(first_);  // waits, because a skipped block may still be written
        memory_->barrier();
        read(first_ + 2);
    }
}

std::vector<StoredRow> Stream::rows(int64_t e, int64_t first, int64_t count) {
    int64_t number = number_of(e, first);
    pass_to(number);
    std::vector<StoredRow> rows;
    rows.reserve(size_t(count));
    while (int64_t(rows.size()) < count) {
        const Block& block = held(number++);
        const auto begin = block.rows.begin() + (first + int64_t(rows.size()) - block.first);
        rows.insert(
            rows.end(), begin,
            begin + std::min(block.end - block.first - (begin - block.rows.begin()), count - int64_t(rows.size())));
    }
    return rows;
}

}  // namespace convoy
