// Stores the rows of a split during a training. Each row lies in the memory of one group of ranks
// (those of a node). The order of rows follows from the split, the seed and the epoch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/image_place.h"
#include "comm/shared_block.h"
#include "data/shard.h"
#include "plan/stream_order.h"

namespace convoy {

/// The sizes of a split's images, decoded and packed one after the other.
class RowShapes {
public:
    /// `places`: the places of ragged images, at least one per image of `info`. Empty for ragged
    /// images that are described and not read. Then only their mean size is known.
    explicit RowShapes(const SplitInfo& info, std::vector<ImagePlace> places = {});

    int64_t rows() const { return rows_; }
    /// Returns the place of row `i`; for i = rows(), the end of the last row.
    ImagePlace operator[](int64_t i) const;
    /// Return the bytes of one line of row `i`, and of the whole row.
    size_t line_bytes(int64_t i) const { return size_t((*this)[i].width) * pixel_bytes_; }
    size_t bytes(int64_t i) const { return size_t((*this)[i].height) * line_bytes(i); }
    size_t mean_bytes() const { return all_bytes_ / size_t(std::max<int64_t>(1, rows_)); }
    /// Returns the places [rows] of ragged images; null for images of one size.
    const ImagePlace* places() const { return places_.empty() ? nullptr : places_.data(); }

private:
    int64_t rows_;
    int32_t height_, width_;
    size_t pixel_bytes_, all_bytes_;
    std::vector<ImagePlace> places_;
};

/// A sample of a batch, and the place of its pixels.
struct StoredRow {
    int32_t sample;  ///< row of the split
    int32_t group;   ///< the group of ranks whose memory holds it
    size_t offset;   ///< offset in that memory, in bytes
};

class RowStore {
public:
    virtual ~RowStore() = default;

    virtual const Groups& groups() const = 0;
    /// Returns the memory of this rank's group.
    virtual const uint8_t* memory() const = 0;
    /// Throws Exit::usage if a batch of `samples` cannot be held at once.
    virtual void check_batch(int64_t /*samples*/) const {}
    /// Collective. Starts at position `first` of an epoch. rows() may then be called for that
    /// position and later ones, in epochs before `end`.
    virtual void begin(const SampleOrder&, int64_t epoch, int64_t first, int64_t end) = 0;
    /// Collective. Returns the samples at positions [first, first + count) of an epoch. Call in the
    /// order of epochs and positions. May wait for a disk. The pixels stay valid until the next
    /// call. Throws Exit::bad_input, on any rank, if data on disk is damaged.
    virtual std::vector<StoredRow> rows(int64_t epoch, int64_t first, int64_t count) = 0;
};

/// Collective. Returns the first `count` images, which must have one size, on rank 0; nothing on
/// other ranks. Call begin() again before further use of the store.
std::vector<uint8_t> first_rows(Comm&, RowStore&, const RowShapes&, int64_t count);

}  // namespace convoy
