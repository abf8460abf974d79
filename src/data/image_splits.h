// Which images are the same, and which are test images by where they lie.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/image_list.h"

namespace convoy {

/// Tells files and archives apart, whatever paths and links to their sources name them.
class SourceIds {
public:
    explicit SourceIds(const std::vector<std::string>& sources);
    /// Two images of lists with the same key are one.
    std::string key(const ListedImage&) const;

private:
    std::vector<std::string> paths_;  // [sources], without links
};

/// Passes over images of archives that lie beside the folders that hold all others, as it is in a
/// folder: they are of no class.
void skip_loose_members(ImageList&);

/// Takes the test images out of sources that have folders "train" and "val" (or "test") above their
/// classes, as torchvision's layout has them, or that are called so themselves, as WebDataset's
/// train-0000.tar and val-0000.tar are. Images of a third split are skipped. Returns nothing, and
/// changes nothing, if there are no such folders and names.
std::optional<ImageList> take_test_images(ImageList& train);

/// Whether a class has the name of a split: the user may have meant one.
bool is_split_name(const std::string& name);

/// Counts the images that are in both lists.
SkippedCount count_in_both(const ImageList& train, const ImageList& test);

}  // namespace convoy
