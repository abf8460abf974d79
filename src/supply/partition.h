// A split in memory; each node holds a contiguous part of its rows.
#pragma once
#include <functional>

#include "supply/row_store.h"

namespace convoy {

class Partition : public RowStore {
public:
    /// Reads the pixels of rows [first, first + rows) to `images`.
    using Read = std::function<void(int64_t first, int64_t rows, uint8_t* images)>;
    /// Collective. `share`: ranks of a node share its part. Throws Exit::bad_input on every rank if
    /// any rank cannot read its rows, Exit::out_of_memory if a node cannot hold its part. `shapes`
    /// must outlive it.
    Partition(Comm&, const RowShapes& shapes, bool share, const Read& read);

    const Groups& groups() const override { return groups_; }
    const uint8_t* memory() const override { return reinterpret_cast<const uint8_t*>(block_->data()); }
    void begin(const SampleOrder&, int64_t epoch, int64_t first, int64_t end) override;
    std::vector<StoredRow> rows(int64_t epoch, int64_t first, int64_t count) override;

private:
    const RowShapes& shapes_;
    Groups groups_;
    std::vector<int64_t> first_row_;  // [groups + 1] the first row of each group's part
    std::unique_ptr<SharedBlock> block_;
    SampleOrder order_;
    int64_t epoch_ = -1;
    std::vector<int32_t> permutation_;  // permutation of the current epoch; empty if it is not shuffled
};

}  // namespace convoy
