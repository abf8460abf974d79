// Converts image files to one shard, and counts their peculiarities and faults.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "data/pixel_counts.h"
#include "data/shard_assignment.h"

namespace convoy {

/// Counts of images in one shard or in several, for the summary.
struct ImageTally {
    static constexpr size_t most_examples = 5;

    int64_t images = 0;
    std::array<int64_t, image_notes> noted{};    ///< [ImageNote], included images with that note
    std::array<int64_t, image_faults> faults{};  ///< [ImageFault], images left out for that fault
    std::vector<std::string> examples{};         ///< "NAME: what is wrong", the first ones left out
    std::vector<int64_t> classes{};              ///< images per class; ends with the last class that has one

    int64_t left_out() const;
    void leave_out(const std::string& name, const BadImage& why);
    void add(const ImageTally&);
};

/// The properties of a shard that is finished except for mean and deviation.
struct ShardRecord {
    std::string name, split;
    int64_t bytes = 0;  ///< size of its file
    ImageTally tally{};
    PixelCounts pixels{3};
};
std::string text_of(const ShardRecord&);
/// Parses the text of text_of(). Throws std::exception for any other text.
ShardRecord record_of(const std::string& text);

/// Removes the images that convert_shard() would leave out, and counts them in `tally`. Calls
/// `progress` after each image.
void leave_out_unreadable(ImageList&, const ImageRules&, ImageTally& tally, const std::function<void()>& progress);

/// Reads, decodes, resizes and writes the images of `shard` to `place`. Leaves out and counts files
/// that cannot be read. Throws Exit::bad_input for such a file if ImageRules::strict is set, and if
/// no image is left. `source`: classes and provenance. `describe` adds root attributes. Calls
/// `progress` after each image.
ShardRecord convert_shard(const AssignedShard& shard, const std::vector<FilePlace>& sources, const ImageRules&,
                          const Source& source, const std::function<void(hid_t)>& describe, const FilePlace& place,
                          const std::function<void()>& progress);

}  // namespace convoy
