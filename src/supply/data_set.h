// The images of a split, kept where place() decided. Each rank reads its part from disk. Any rank
// can then train on any sample, so the order of samples does not depend on the number of ranks.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "comm/replicated.h"
#include "data/shard.h"
#include "supply/placement.h"
#include "supply/preprocessing.h"
#include "supply/supply.h"

namespace convoy {

/// Returns the properties of a split, restricted to its first `most` images; 0: all images. Throws
/// what SplitReader::places() throws.
SplitInfo first_images(const SplitReader&, int64_t most);

/// Collective. Throws Exit::usage unless all ranks see the same manifest, and shards whose images
/// have the same sizes. Ranks share memory that these sizes describe, so call it before place().
/// Hosts may have different copies, or another user may exchange a file. Does not compare pixels.
void check_same_split(Comm&, const SplitReader&);

class DataSet {
public:
    /// Collective. Reads the first `most` images; 0: all. With Placement::stream, reads only
    /// labels. Placement::automatic is not allowed; place() never returns it. Throws
    /// Exit::bad_input on every rank if any rank cannot read its rows.
    DataSet(Comm&, Backend&, const SplitReader&, int64_t most = 0, const Placed& = {});
    /// Does the same with rows from `read`; the placement must be resident. `read` copies `rows`
    /// images [rows, h, w, c], as bytes, and labels [rows], from row `first` on. `places`: the
    /// places of ragged images; else empty.
    using Read = std::function<void(int64_t first, int64_t rows, uint8_t* images, int32_t* labels)>;
    DataSet(Comm&, Backend&, const SplitInfo&, const Read& read, std::vector<ImagePlace> places = {},
            const Placed& = {});
    /// Describes a split for programs that are built but do not run. Counts the memory of its
    /// images, but allocates none.
    DataSet(Backend&, const SplitInfo&, const Placed& = {});
    DataSet(const DataSet&) = delete;

    const SplitInfo& info() const { return info_; }
    Tensor images() const { return images_; }  ///< device, u8 or f32 [N, h, w, c]; no data if not resident
    Tensor labels() const { return labels_; }  ///< device, i32 [N]; no data if not resident
    /// Collective. Returns the first `rows` images, which must have one size, on rank 0.
    std::vector<uint8_t> first_pixels(Comm&, int64_t rows) const;
    /// Collective. Returns the supply that assembles batches on the host; null if devices read
    /// batches from the split.
    std::unique_ptr<Supply> supply(Comm&, Backend&, const BatchOrder&, Supply::Shown) const;
    /// Returns the parameters of a gather, except for the order and the outputs, which the program
    /// adds. `counters`: on the device. `first`: as in Gather. `supply`: from supply().
    Gather batches(const Preprocessing&, const Counters* counters, int64_t first, const Supply* supply) const;
    double seconds() const { return seconds_; }

private:
    /// Reads images and labels to every node.
    void read_all(Comm&, const Read&);
    /// Reads labels to every node; `read` reads a rank's share of the rows.
    void read_shares(Comm&, const std::function<void(int64_t first, int64_t rows, int32_t* labels)>& read);
    /// Reads labels, and makes the RowStore that replaces pixels_.
    void store(Comm&, Backend&, const SplitReader&, const Placed&);
    /// Makes device tensors of the pixels and classes at these host addresses.
    void bind(Backend&, const Placed&, void* pixels, void* classes);

    SplitInfo info_;
    RowShapes shapes_;
    bool resident_ = false;
    std::unique_ptr<Replicated> pixels_, classes_;  // null: not read
    std::unique_ptr<RowStore> store_;               // null: the images are in pixels_
    Buffer device_pixels_, device_classes_, device_places_;
    Tensor images_, labels_;
    double seconds_ = 0;
};

}  // namespace convoy
