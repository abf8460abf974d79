// A split, where place() put it. Each rank reads its part of the rows from disk; any rank can then
// train on any sample, so the sample order does not depend on the number of ranks.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "comm/replicated.h"
#include "data/shard.h"
#include "train/placement.h"
#include "train/preprocessing.h"
#include "train/supply.h"

namespace convoy {

/// A split of which only the first `most` images are taken; 0: all. Throws as
/// SplitReader::places().
SplitInfo first_images(const SplitReader&, int64_t most);

class DataSet {
public:
    // A placement is not automatic: place() says which it is.
    /// Collective. Only the first `most` images; 0: all. Throws Exit::bad_input on every rank if
    /// any rank cannot read its rows. Of a stream only labels are read.
    DataSet(Comm&, Backend&, const SplitReader&, int64_t most = 0, const Placed& = {});
    /// As above, with rows from elsewhere, for devices to read: `read` fills `rows` images [rows,
    /// h, w, c], as bytes, and labels [rows] from row `first` on. `places`: of images of many
    /// sizes.
    using Read = std::function<void(int64_t first, int64_t rows, uint8_t* images, int32_t* labels)>;
    DataSet(Comm&, Backend&, const SplitInfo&, const Read& read, std::vector<ImagePlace> places = {},
            const Placed& = {});
    /// What a split is, without its images: its memory is counted and not taken, for programs that
    /// are built but do not run.
    DataSet(Backend&, const SplitInfo&, const Placed& = {});
    DataSet(const DataSet&) = delete;

    const SplitInfo& info() const { return info_; }
    Tensor images() const { return images_; }  ///< device, u8 or f32 [N, h, w, c]; no data if not resident
    Tensor labels() const { return labels_; }  ///< device, i32 [N]; no data if not resident
    /// Collective. The first `rows` images, of one size, on rank 0.
    std::vector<uint8_t> first_pixels(Comm&, int64_t rows) const;
    /// Collective. What puts batches together before their steps; null if devices read them from
    /// the split.
    std::unique_ptr<Supply> supply(Comm&, Backend&, const BatchPlan&, Supply::Shown) const;
    /// What is known of a batch before its program: neither order nor place of the outputs.
    /// `counters` on the device; `first` as in Gather; `supply` as supply() gave it.
    Gather batches(const Preprocessing&, const Counters* counters, int64_t first, const Supply* supply) const;
    double seconds() const { return seconds_; }

private:
    /// Images and labels, which every node has then.
    void read_all(Comm&, const Read&);
    /// Labels, which every node has then; `read` has a rank's share of the rows.
    void read_shares(Comm&, const std::function<void(int64_t first, int64_t rows, int32_t* labels)>& read);
    /// Labels, and what there is in place of pixels_.
    void store(Comm&, Backend&, const SplitReader&, const Placed&);
    /// The tensors on the device, of what lies at these addresses on the host.
    void bind(Backend&, const Placed&, void* pixels, void* classes);

    SplitInfo info_;
    RowShapes shapes_;
    bool resident_ = false;
    std::unique_ptr<Replicated> pixels_, classes_;  // null: unread
    std::unique_ptr<RowStore> store_;               // null: pixels_ has them
    Buffer device_pixels_, device_classes_, device_places_;
    Tensor images_, labels_;
    double seconds_ = 0;
};

}  // namespace convoy
