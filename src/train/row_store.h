// Where the rows of a split are while a training needs them: each in the memory of one group of
// ranks (those of a node), in an order that is a function of the split, the seed and the epoch.
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
    /// `places`: of images of many sizes; as many as `info` has images, at least. None: of a split
    /// that is described and not read, each image as large as the mean.
    explicit RowShapes(const SplitInfo& info, std::vector<ImagePlace> places = {});

    int64_t rows() const { return rows_; }
    /// Of row `i`; that of row rows() is where all end.
    ImagePlace operator[](int64_t i) const;
    /// Bytes of one line of row `i`, and of all of it.
    size_t line_bytes(int64_t i) const { return size_t((*this)[i].width) * pixel_bytes_; }
    size_t bytes(int64_t i) const { return size_t((*this)[i].height) * line_bytes(i); }
    size_t mean_bytes() const { return all_bytes_ / size_t(std::max<int64_t>(1, rows_)); }
    /// [rows] of images of many sizes; else null.
    const ImagePlace* places() const { return places_.empty() ? nullptr : places_.data(); }

private:
    int64_t rows_;
    int32_t height_, width_;
    size_t pixel_bytes_, all_bytes_;
    std::vector<ImagePlace> places_;
};

/// A sample of a batch, and where its pixels are.
struct StoredRow {
    int32_t sample;  ///< row of the split
    int32_t group;   ///< whose memory has it
    size_t offset;   ///< there, in bytes
};

class RowStore {
public:
    virtual ~RowStore() = default;

    virtual const Groups& groups() const = 0;
    /// The memory of this rank's group.
    virtual const uint8_t* memory() const = 0;
    /// Throws Exit::usage if so many samples cannot be had at a time.
    virtual void check_batch(int64_t /*samples*/) const {}
    /// Collective. What rows() is asked for next is position `first` of an epoch, or after it;
    /// nothing from epoch `end` on will be.
    virtual void begin(const SampleOrder&, int64_t epoch, int64_t first, int64_t end) = 0;
    /// Collective, in the order of epochs and positions: the samples at [first, first + count) of
    /// an epoch. May wait for a disk. Pixels stay where they are until the next call. Throws
    /// Exit::bad_input, on any rank, for what is damaged on disk.
    virtual std::vector<StoredRow> rows(int64_t epoch, int64_t first, int64_t count) = 0;
};

/// Collective. The first `count` images, of one size, on rank 0; nothing elsewhere. Whoever uses
/// the store begins anew.
std::vector<uint8_t> first_rows(Comm&, RowStore&, const RowShapes&, int64_t count);

}  // namespace convoy
