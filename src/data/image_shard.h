// Writes a shard image by image. Number and sizes of the images are known only at the end.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/hdf5_growing.h"
#include "data/image_file.h"
#include "data/shard_folder.h"

namespace convoy {

/// The layout of images in the shards of a data set.
enum class ImageLayout {
    fixed,  ///< /images [n, height, width, 3], all of one size
    raw,    ///< data/shard_ragged.h, decoded pixels
    jpeg    ///< data/shard_ragged.h, unchanged files
};

class ImageShardWriter {
public:
    /// Creates the file. `height`, `width`: the size of all images in ImageLayout::fixed.
    ImageShardWriter(const FilePlace&, ImageLayout, int height = 0, int width = 0);
    /// Appends a row: the image's pixels or, in ImageLayout::jpeg, the file that they were decoded
    /// from.
    void add(const RgbImage& image, FileBytes file, int32_t label);
    int64_t rows() const { return int64_t(labels_.size()); }
    /// Writes the remaining rows and `title`, in which it sets the format and the number of images.
    /// Calls `describe` to add root attributes. Closes the file and waits until it is on disk.
    /// seal_shard() adds mean and deviation later. Throws Exit::io.
    void finish(ShardTitle title, const Source&, const std::function<void(hid_t)>& describe);

private:
    void write_rows();

    const FilePlace place_;
    const ImageLayout layout_;
    h5::Handle file_;
    std::optional<h5::GrowingSet> pixels_;
    std::vector<int64_t> offsets_ = {0};              // [rows + 1]; not used by ImageLayout::fixed
    std::vector<int32_t> heights_, widths_, labels_;  // [rows]
};

/// Adds mean and deviation to a finished shard. Throws Exit::io.
void seal_shard(const FilePlace&, const PixelStatistics&);

}  // namespace convoy
