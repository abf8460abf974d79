// Finds identical images, and assigns images to splits by the names of folders and archives.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/image_list.h"

namespace convoy {

/// Identifies images by file or archive, independent of the paths and links that lead to them.
class SourceIds {
public:
    explicit SourceIds(const std::vector<std::string>& sources);
    /// Returns the key of an image. Two entries with the same key are the same image.
    std::string key(const ListedImage&) const;

private:
    std::vector<std::string> paths_;  // [sources], without links
};

/// Skips images of an archive that lie beside its class folders, because they have no class.
void skip_loose_members(ImageList&);

/// Moves the test images out of `train`, and returns them. They are in folders "val" or "test"
/// beside a folder "train" (torchvision's layout), or in archives with such names (WebDataset's
/// train-0000.tar, val-0000.tar). Skips images of other splits. If there are no such names, returns
/// nothing and changes nothing.
std::optional<ImageList> take_test_images(ImageList& train);

/// True if a name begins with the word of a split, such as "train" or "val". A class with such a
/// name may be a split that was not recognised.
bool is_split_name(const std::string& name);

/// Counts the images that are in both lists.
SkippedCount count_in_both(const ImageList& train, const ImageList& test);

}  // namespace convoy
