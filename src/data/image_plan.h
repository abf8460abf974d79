// Which image goes into which shard: a function of the list and the seed alone. Rows are permuted
// once, here: a shard that held one class after the other would spoil every shuffle in a window.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/image_list.h"
#include "data/image_resize.h"
#include "data/image_shard.h"

namespace convoy {

/// What becomes of images.
struct ImageRules {
    ImageLayout layout = ImageLayout::raw;
    Resize resize;
    bool strict = false;  ///< the first damaged file ends the conversion
};

/// The images of one shard, in the order in which they are written.
struct PlannedShard {
    std::string split;
    int shard = 0, shards = 0;
    std::vector<ListedImage> images{};

    std::string name() const { return shard_name(split, shard, shards); }
};

struct ImagePlan {
    std::vector<FilePlace> sources;    ///< that ListedImage::source counts
    std::vector<PlannedShard> shards;  ///< the training split's first
};

struct PlanOptions {
    uint64_t seed = 0;
    double test_share = 0;     ///< of the images, if there are no test images of their own
    int64_t train_shards = 0;  ///< 0: shards of about 1 GiB
};

/// Takes both lists apart; `test` may be empty. Throws Exit::usage for more shards than images.
ImagePlan plan_shards(ImageList train, ImageList test, const PlanOptions&, const ImageRules&);

/// The plan as text, for other ranks, and back; a rank keeps the images of the shards that are its
/// own: shard i is rank (i % ranks)'s.
/// Sources are known by the paths that messages name.
std::string text_of(const ImagePlan&);
ImagePlan plan_of(const std::string& text, int rank, int ranks);

}  // namespace convoy
