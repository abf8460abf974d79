// Shared by the feeds of all backends: the layout of a batch in one block of memory, and the order
// in which blocks are used.
#pragma once
#include <cstdint>

#include "backend/feed.h"

namespace convoy {

/// The layout of a batch in one block: places, labels and samples of `rows` images, then the
/// pixels. Offsets are in bytes; places are at offset 0.
struct FeedLayout {
    static constexpr size_t alignment = 256;  ///< bytes
    size_t labels, samples, images;

    explicit FeedLayout(int rows)
        : labels(size_t(rows) * sizeof(ImagePlace)),
          samples(labels + size_t(rows) * sizeof(int32_t)),
          images((samples + size_t(rows) * sizeof(int32_t) + alignment - 1) / alignment * alignment) {}
    size_t bytes(size_t image_bytes) const { return images + image_bytes; }

    HostBatch host(void* block) const {
        auto* begin = static_cast<uint8_t*>(block);
        return {.images = begin + images,
                .labels = reinterpret_cast<int32_t*>(begin + labels),
                .samples = reinterpret_cast<int32_t*>(begin + samples),
                .places = static_cast<ImagePlace*>(block)};
    }
    StagedBatch staged(void* block) const {
        const HostBatch b = host(block);
        return {.images = b.images, .labels = b.labels, .samples = b.samples, .places = b.places};
    }
};

/// Counts which of a feed's host blocks are claimed. Blocks are used in turn.
class FeedTurns {
public:
    explicit FeedTurns(int ahead) : slots_(int64_t(ahead) + 1) { require(ahead >= 0, "a feed has a block"); }
    size_t slots() const { return size_t(slots_); }
    /// Returns the index of the block that claim() returns next.
    size_t next() const { return size_t(claimed_ % slots_); }
    size_t claim() {
        require(claimed_ - taken_ < slots_, "a feed has a block for each claimed batch");
        return size_t(claimed_++ % slots_);
    }
    size_t take() {
        require(taken_ < claimed_, "a batch is claimed before it is taken");
        return size_t(taken_++ % slots_);
    }
    void clear() { claimed_ = taken_; }

private:
    int64_t slots_, claimed_ = 0, taken_ = 0;
};

/// Returns the new size in bytes of a block of `now` bytes that is too small for `image_bytes`. It
/// grows by a quarter at least, so that blocks seldom grow.
inline size_t grown(size_t now, size_t image_bytes) {
    return image_bytes > now + now / 4 ? image_bytes : now + now / 4;
}

}  // namespace convoy
