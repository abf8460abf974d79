// Makes one shard of image files, and remembers what it saw of them.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "data/image_plan.h"
#include "data/pixel_counts.h"

namespace convoy {

/// What a summary says of the images of one shard, or of all.
struct ImageTally {
    static constexpr size_t most_examples = 5;

    int64_t images = 0, damaged = 0;
    std::array<int64_t, image_notes> noted{};  ///< by ImageNote; of images that were taken
    std::vector<std::string> examples{};       ///< "NAME: what is wrong", of damaged files, the first ones

    void add(const ImageTally&);
};

/// A finished shard, but for mean and deviation.
struct ShardRecord {
    std::string name, split;
    int64_t bytes = 0;  ///< of its file
    ImageTally tally{};
    PixelCounts pixels{3};
};
std::string text_of(const ShardRecord&);
/// Throws std::exception for anything else.
ShardRecord record_of(const std::string& text);

/// Reads, decodes, resizes and writes the images of `shard` to `path`. Damaged files are left out
/// and counted, or with ImageRules::strict thrown as Exit::bad_input; that is also thrown if no
/// image is left. `source`: classes and provenance; `describe`: more root attributes. `progress` is
/// called after each image.
ShardRecord convert_shard(const PlannedShard& shard, const std::vector<std::string>& sources, const ImageRules&,
                          const Source& source, const std::function<void(hid_t)>& describe, const std::string& path,
                          const std::function<void()>& progress);

}  // namespace convoy
