// Lists the images of a folder that has a subfolder per class, for list_images().
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/image_list.h"

namespace convoy {

/// Size and modification time of a file that holds one or more images.
struct SourceFile {
    int64_t bytes, changed;  ///< changed: nanoseconds since 1970
};
/// Returns size and time of `path`. Throws Exit::bad_input if there is no such file.
SourceFile look_at_source(const std::string& path);

/// Recognises files that lie outside a folder: links, "..", and a list's absolute paths may lead
/// there.
class Outside {
public:
    explicit Outside(const std::string& root);
    /// True if the file lies outside. Fast if files of one folder follow each other.
    bool holds(const std::string& path);

private:
    std::filesystem::path root_, folder_, real_folder_;
};

/// Adds the images of folder `root`, in which each subfolder is a class. Follows links, but reads
/// no folder twice. If no subfolder holds an image, returns the paths of the archives in `root`;
/// these are then the sources. Throws Exit::bad_input if a folder cannot be read, or if there are
/// neither folders nor archives.
std::vector<std::string> add_folder(const std::string& root, ImageList& to);

}  // namespace convoy
