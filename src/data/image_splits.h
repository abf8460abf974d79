// Which images are the same, and which are test images by the folders that they lie in.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/image_list.h"

namespace convoy {

/// Tells files and archives apart by device and inode, whatever paths name them.
class SourceIds {
public:
    explicit SourceIds(const std::vector<std::string>& sources);
    /// Two images of lists with the same key are one.
    std::string key(const ListedImage&) const;

private:
    std::vector<std::string> ids_;  // [sources]
};

/// Takes the test images out of a source that has folders "train" and "val" (or "test") above its
/// classes, as torchvision's layout has them. Images of a third split are skipped. Returns nothing,
/// and changes nothing, if the source has no such folders.
std::optional<ImageList> take_test_images(ImageList& train);

/// Counts the images that are in both lists.
SkippedCount count_in_both(const ImageList& train, const ImageList& test);

}  // namespace convoy
