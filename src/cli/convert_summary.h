// The summary that a conversion of images prints: images per source, skipped files, and images that
// could not be read.
#pragma once
#include <string>
#include <vector>

#include "cli/convert_options.h"
#include "cli/terminal.h"
#include "data/shard_conversion.h"

namespace convoy {

/// The result of listing the images.
struct ListSummary {
    std::vector<GivenImages> given;
    std::array<SkippedCount, skipped_kinds> skipped{};
    std::map<std::string, int64_t> formats{};  ///< ImageList::formats
    SkippedCount in_both;                      ///< images that are in both splits
    SkippedCount outside;                      ///< ImageList::outside
    bool own_test = false;                     ///< true: the source has test images; false: they were drawn
    ImageTally unreadable{};                   ///< images that were left out before rows were drawn
};
/// Returns "1 image" or "2,000 images".
std::string counted(int64_t count, const std::string& what, const char* several = "s");

ListSummary summary_of(const ImageList& train, const ImageList& test);
/// Throws Exit::bad_input if a link has no target that can be read; for --strict.
void check_nothing_is_lost(const ListSummary&);

/// Prints the summary. `converted`: number of images that this run converted, in `seconds`.
void print_summary(Terminal&, const ImageOptions&, const ListSummary&, const std::vector<std::string>& class_names,
                   const std::vector<ShardRecord>&, double seconds, int64_t converted);

/// Returns "images by class, train + test: cat 57 + 3, …". If there are more than ten classes,
/// lists only those with the fewest and the most images.
std::string images_by_class(const std::vector<std::string>& class_names, const std::vector<int64_t>& train,
                            const std::vector<int64_t>& test);

/// Returns a line that names the classes without an image in `split`; empty if there are none.
/// `counts`: images of each class; classes at the end may be missing if they have none.
std::string classes_without_images(const std::string& split, const std::vector<std::string>& class_names,
                                   const std::vector<int64_t>& counts);

}  // namespace convoy
