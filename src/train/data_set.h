// A split in memory, in full, on every device. Each rank reads its part of the rows from disk, and
// ranks of a node share one copy. Any rank can then train on any sample, so the sample order does
// not depend on the number of ranks.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "comm/replicated.h"
#include "data/shard.h"
#include "train/preprocessing.h"

namespace convoy {

/// Where the devices of a node have a data set.
enum class Placement {
    automatic,  ///< each device holds a copy if that leaves it half of its memory, else node
    replicate,  ///< each device holds a copy
    node        ///< the node's memory holds one copy, and devices read their batches from there
};
/// Where `bytes` of images go, which is not automatic, and one line for people that says why; no
/// line where the device's memory is the host's: there a node has one copy anyway.
struct Placed {
    Placement placement;
    std::string why;
};
Placed place(Placement, const Backend&, size_t bytes);

/// A split of which only the first `most` images are taken; 0: all. Throws as
/// SplitReader::places().
SplitInfo first_images(const SplitReader&, int64_t most);

class DataSet {
public:
    // A placement is not automatic: place() says which it is.
    /// Collective. Only the first `most` images; 0: all. Throws Exit::bad_input on every rank if
    /// any rank cannot read its rows.
    DataSet(Comm&, Backend&, const SplitReader&, int64_t most = 0, Placement = Placement::replicate);
    /// As above, with rows from elsewhere: `read` fills `rows` images [rows, h, w, c], as bytes,
    /// and labels [rows] from row `first` on. `places`: of images of many sizes.
    using Read = std::function<void(int64_t first, int64_t rows, uint8_t* images, int32_t* labels)>;
    DataSet(Comm&, Backend&, const SplitInfo&, const Read& read, std::vector<ImagePlace> places = {},
            Placement = Placement::replicate);
    /// What a split is, without its images: its memory is counted and not taken, for programs that
    /// are built but do not run.
    DataSet(Backend&, const SplitInfo&, Placement = Placement::replicate);

    const SplitInfo& info() const { return info_; }
    Tensor images() const { return images_; }  ///< device, u8 or f32 [N, h, w, c]
    Tensor labels() const { return labels_; }  ///< device, i32 [N]
    /// Host, [N, h, w, c] of images of one size, where they were read.
    const char* pixels() const { return pixels_->data(); }
    /// What is known of a batch before its program: neither order nor place of the outputs.
    /// `counters` on the device; `first` as in Gather.
    Gather batches(const Preprocessing&, const Counters* counters, int64_t first) const;
    double seconds() const { return seconds_; }

private:
    /// The tensors on the device, of what lies at these addresses on the host.
    void bind(Backend&, Placement, void* pixels, void* classes);
    /// Where row `row` begins in the pixels of all.
    size_t offset_of(int64_t row) const;

    SplitInfo info_;
    std::vector<ImagePlace> places_;                // of images of many sizes
    std::unique_ptr<Replicated> pixels_, classes_;  // null: unread
    Buffer device_pixels_, device_classes_, device_places_;
    Tensor images_, labels_;
    double seconds_ = 0;
};

}  // namespace convoy
