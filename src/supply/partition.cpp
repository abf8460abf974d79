#include "supply/partition.h"

#include <algorithm>

namespace convoy {

Partition::Partition(Comm& comm, const RowShapes& shapes, bool share, const Read& read)
    : shapes_(shapes), groups_(SharedBlock::groups(comm, share)) {
    const std::vector<int> seats = groups_.seats();
    const auto part_of = [&](int seat) { return share_of(shapes.rows(), comm.size(), seat); };
    int seat = 0, mine = 0;
    for (const std::vector<int>& members : groups_.members) {
        first_row_.push_back(part_of(seat).first);
        seat += int(members.size());
    }
    first_row_.push_back(shapes.rows());
    while (seats[mine] != comm.rank()) ++mine;

    const size_t begin = size_t(shapes[first_row_[groups_.own()]].offset),
                 end = size_t(shapes[first_row_[size_t(groups_.own()) + 1]].offset);
    block_ = std::make_unique<SharedBlock>(comm, share, end - begin, "this node's part of the data set",
                                           "use --data-placement stream, or more nodes");
    const Share rows = part_of(mine);
    comm.together([&] {
        const Doing doing(comm.activity(), "reading the data set");
        if (rows.count > 0)
            read(rows.first, rows.count,
                 reinterpret_cast<uint8_t*>(block_->data() + size_t(shapes[rows.first].offset) - begin));
    });
    block_->barrier();
}

void Partition::begin(const SampleOrder& order, int64_t, int64_t, int64_t) {
    order_ = order;
    epoch_ = -1;
}

std::vector<StoredRow> Partition::rows(int64_t epoch, int64_t first, int64_t count) {
    if (order_.shuffled && epoch != epoch_) permutation_ = permutation(shapes_.rows(), order_.seed, uint32_t(epoch));
    epoch_ = epoch;
    std::vector<StoredRow> rows;
    rows.reserve(size_t(count));
    for (int64_t i = first; i < first + count; ++i) {
        const int64_t row = order_.shuffled ? permutation_[i] : i;
        const auto after = std::upper_bound(first_row_.begin(), first_row_.end() - 1, row);
        const auto group = after - first_row_.begin() - 1;
        rows.push_back({int32_t(row), int32_t(group), size_t(shapes_[row].offset - shapes_[first_row_[group]].offset)});
    }
    return rows;
}

}  // namespace convoy
