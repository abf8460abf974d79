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

    int64_t images = 0;
    std::array<int64_t, image_notes> noted{};    ///< [ImageNote], of images that were taken
    std::array<int64_t, image_faults> faults{};  ///< [ImageFault], of images that were left out
    std::vector<std::string> examples{};         ///< "NAME: what is wrong", of the first that were left out
    std::vector<int64_t> classes{};              ///< images of each class, up to the last that has one

    int64_t left_out() const;
    void leave_out(const std::string& name, const BadImage& why);
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

/// Leaves out the images that convert_shard would leave out, which `tally` counts. `progress` is
/// called after each image.
void leave_out_unreadable(ImageList&, const ImageRules&, ImageTally& tally, const std::function<void()>& progress);

/// Reads, decodes, resizes and writes the images of `shard` to `place`. Files that cannot be read
/// are left out and counted, or with ImageRules::strict thrown as Exit::bad_input; that is also
/// thrown if no image is left. `source`: classes and provenance; `describe`: more root attributes.
/// `progress` is called after each image.
ShardRecord convert_shard(const PlannedShard& shard, const std::vector<FilePlace>& sources, const ImageRules&,
                          const Source& source, const std::function<void(hid_t)>& describe, const FilePlace& place,
                          const std::function<void()>& progress);

}  // namespace convoy
