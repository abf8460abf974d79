// Assigns images to shards, as a function of the list and the seed alone. Rows are permuted here,
// once, because a shard sorted by class would spoil every shuffle within a window.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/image_list.h"
#include "data/image_resize.h"
#include "data/image_shard.h"

namespace convoy {

/// Layout and size of the images in the data set.
struct ImageRules {
    ImageLayout layout = ImageLayout::raw;
    Resize resize;
    bool strict = false;  ///< true: a damaged file ends the conversion
};

/// The images of one shard, in the order in which they are written.
struct AssignedShard {
    std::string split;
    int shard = 0, shards = 0;
    std::vector<ListedImage> images{};

    std::string name() const { return shard_name(split, shard, shards); }
};

struct ShardAssignment {
    std::vector<FilePlace> sources;     ///< ListedImage::source is an index into this
    std::vector<AssignedShard> shards;  ///< training shards first
};

struct ShardOptions {
    uint64_t seed = 0;
    double test_share = 0;     ///< share of each class's images that become test images, if no test images are given
    int64_t train_shards = 0;  ///< 0: shards of about 1 GiB
};

/// Returns a lower bound of the bytes of these shards. `finished` has a letter per shard. Those
/// with 'y' are left out.
uint64_t least_bytes(const std::vector<AssignedShard>&, const std::string& finished, const ImageRules&);

/// Assigns the images of both lists; `test` may be empty. Throws Exit::usage for more shards than
/// images.
ShardAssignment assign_shards(ImageList train, ImageList test, const ShardOptions&, const ImageRules&);

/// Returns the assignment as text, for other ranks. Sources are written as the paths that messages
/// show.
std::string text_of(const ShardAssignment&);
/// Parses such a text. Keeps only the images of this rank's shards: shard i belongs to rank i %
/// ranks.
ShardAssignment assignment_of(const std::string& text, int rank, int ranks);

}  // namespace convoy
