#include "supply/supply.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace convoy {

/// The part of an image that a step reads.
struct Supply::Item {
    StoredRow row;
    ImagePlace place;
    size_t skipped, bytes;  ///< bytes before the first line that is read; bytes of the lines that are read

    static size_t sum(const std::vector<Item>& items) {
        size_t bytes = 0;
        for (const Item& item : items) bytes += item.bytes;
        return bytes;
    }
};

Supply::Supply(Comm& comm, Backend& backend, RowStore* store, const RowShapes& shapes, const int32_t* labels,
               const BatchOrder& batches, Shown shown)
    : comm_(comm),
      backend_(backend),
      store_(store),
      shapes_(shapes),
      labels_(labels),
      batches_(batches),
      shown_(std::move(shown)),
      packed_(std::make_unique<decltype(packed_)::element_type>()),
      exchange_(store ? std::make_unique<Exchange>(comm) : nullptr),
      exceptions_(std::uncaught_exceptions()) {}

// If an exception leaves messages in flight, MPI may still read and write their buffers. These are
// then leaked, because the process ends soon.
Supply::~Supply() {
    if (std::uncaught_exceptions() <= exceptions_) return;
    [[maybe_unused]] const auto* const messages = packed_.release();
    [[maybe_unused]] const Feed* const batches = feed_.release();
}

void Supply::build() {
    const int64_t most = batches_.epoch.full_steps > 0 ? batches_.global_batch : batches_.epoch.tail;
    const int ranks = comm_.size();
    int64_t rows = 0;
    for (int distance = 0; distance <= batches_.audited_ranks(ranks); ++distance)
        rows += batches_.rows_of(most, (comm_.rank() - distance + ranks) % ranks, ranks).count;
    feed_ = backend_.feed(int(rows), size_t(rows) * shapes_.mean_bytes(), ahead);
}

void Supply::begin(int64_t step, int64_t end) {
    while (exchange_->rounds() > 0) exchange_->finish();
    feed_->clear();
    step_ = posted_ = step;
    end_ = end;
    if (step >= end) return;
    const int64_t steps = batches_.epoch.steps();
    store_->begin(batches_.order, step / steps, step % steps * batches_.global_batch, (end - 1) / steps + 1);
}

void Supply::next() {
    require(step_ < end_, "a step after the last one");
    feed_->begin_step();
    while (posted_ < std::min(step_ + ahead, end_)) post(posted_);
    exchange_->finish();
    feed_->take();
    if (posted_ < end_) post(posted_);
    ++step_;
}

void Supply::post(int64_t step) {
    const int64_t epoch = step / batches_.epoch.steps(), first = step % batches_.epoch.steps() * batches_.global_batch,
                  left = batches_.epoch.full_steps * batches_.global_batch + batches_.epoch.tail - first;
    const std::vector<StoredRow> rows = store_->rows(epoch, first, std::min(batches_.global_batch, left));
    while (!feed_->ready()) {
        exchange_->progress();
        std::this_thread::yield();
    }
    const std::vector<Exchange::Message> receive = fill(items_of(step, rows, comm_.rank()));
    exchange_->start(receive, pack(step, rows));
    posted_ = step + 1;
}

/// Returns the items of a rank's share of a batch. At an audited step, appends those of the shares
/// of the ranks before it.
std::vector<Supply::Item> Supply::items_of(int64_t step, const std::vector<StoredRow>& rows, int rank) const {
    const int64_t epoch = step / batches_.epoch.steps();
    const int ranks = comm_.size(),
              audited = is_audited(step, batches_.audit_every) ? batches_.audited_ranks(ranks) : 0;
    std::vector<Item> items;
    for (int distance = 0; distance <= audited; ++distance) {
        const Share share = batches_.rows_of(int64_t(rows.size()), (rank - distance + ranks) % ranks, ranks);
        for (int64_t i = share.first; i < share.first + share.count; ++i) {
            const StoredRow& row = rows[size_t(i) % rows.size()];
            const ImagePlace place = shapes_[row.sample];
            const Lines lines = shown_(epoch, row.sample, place.height, place.width);
            const size_t line = shapes_.line_bytes(row.sample);
            items.push_back({row, place, size_t(lines.first) * line, size_t(lines.count) * line});
        }
    }
    return items;
}

/// Copies the images that are in this node's memory to the batch. The other images follow them, by
/// group. Returns the messages that receive the others.
std::vector<Exchange::Message> Supply::fill(const std::vector<Item>& items) {
    const Groups& groups = store_->groups();
    const HostBatch batch = feed_->claim(Item::sum(items));
    const int place = groups.place_of(comm_.rank());
    std::vector<Exchange::Message> receive;
    uint8_t* to = batch.images;
    for (int g = 0; g < groups.count(); ++g) {
        const int group = (groups.own() + g) % groups.count();
        uint8_t* const begin = to;
        for (size_t i = 0; i < items.size(); ++i) {
            const Item& item = items[i];
            if (item.row.group != group) continue;
            if (g == 0) std::memcpy(to, store_->memory() + item.row.offset + item.skipped, item.bytes);
            batch.samples[i] = item.row.sample;
            batch.labels[i] = labels_[item.row.sample];
            batch.places[i] = {to - batch.images - int64_t(item.skipped), item.place.height, item.place.width};
            to += item.bytes;
        }
        const std::vector<int>& members = groups.members[group];
        if (g > 0 && to > begin)
            receive.push_back({members[size_t(place) % members.size()], begin, size_t(to - begin)});
    }
    return receive;
}

/// Returns the messages that this rank sends to ranks of other nodes. Each member of a group serves
/// a fixed subset of every other group's ranks.
std::vector<Exchange::Message> Supply::pack(int64_t step, const std::vector<StoredRow>& rows) {
    const Groups& groups = store_->groups();
    const size_t members = groups.members[groups.own()].size();
    std::vector<std::vector<uint8_t>>& packed = (*packed_)[step % (ahead + 1)];
    packed.resize(size_t(comm_.size()));
    std::vector<Exchange::Message> send;
    for (int rank = 0; rank < comm_.size(); ++rank) {
        if (groups.of[rank] == groups.own()) continue;
        if (size_t(groups.place_of(rank)) % members != size_t(groups.place_of(comm_.rank()))) continue;
        std::vector<Item> items = items_of(step, rows, rank);
        std::erase_if(items, [&](const Item& item) { return item.row.group != groups.own(); });
        std::vector<uint8_t>& message = packed[rank];
        message.resize(Item::sum(items));
        uint8_t* to = message.data();
        for (const Item& item : items) {
            std::memcpy(to, store_->memory() + item.row.offset + item.skipped, item.bytes);
            to += item.bytes;
        }
        if (!message.empty()) send.push_back({rank, message.data(), message.size()});
    }
    return send;
}

}  // namespace convoy
