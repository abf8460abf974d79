// Writes a shard image by image: how many there are, and how large, is known at its end.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/hdf5_growing.h"
#include "data/image_file.h"
#include "data/shard_folder.h"

namespace convoy {

/// How images lie in the shards of a data set.
enum class ImageLayout {
    fixed,  ///< /images [n, height, width, 3], all of one size
    raw,    ///< data/shard_ragged.h, pixels
    jpeg    ///< data/shard_ragged.h, files as they were
};

class ImageShardWriter {
public:
    /// Creates the file. `height`, `width`: of ImageLayout::fixed.
    ImageShardWriter(const FilePlace&, ImageLayout, int height = 0, int width = 0);
    /// Appends a row: the image's pixels or, of ImageLayout::jpeg, the file that it was decoded
    /// from.
    void add(const RgbImage& image, FileBytes file, int32_t label);
    int64_t rows() const { return int64_t(labels_.size()); }
    /// Writes the rest, `title` (whose format and number of images are filled in), and what
    /// `describe` adds to the root; closes the file and waits until it is on disk. Mean and
    /// deviation are still to be added. Throws Exit::io.
    void finish(ShardTitle title, const Source&, const std::function<void(hid_t)>& describe);

private:
    void write_rows();

    const FilePlace place_;
    const ImageLayout layout_;
    h5::Handle file_;
    std::optional<h5::GrowingSet> pixels_;
    std::vector<int64_t> offsets_ = {0};              // [rows + 1]; ragged
    std::vector<int32_t> heights_, widths_, labels_;  // [rows]
};

/// Adds mean and deviation to a finished shard. Throws Exit::io.
void seal_shard(const FilePlace&, const PixelStatistics&);

}  // namespace convoy
