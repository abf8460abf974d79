// Images in a folder that has a folder per class; for list_images.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/image_list.h"

namespace convoy {

/// A file that holds an image, or several.
struct SourceFile {
    int64_t bytes, changed;  ///< nanoseconds since 1970
};
/// Throws Exit::bad_input if there is no such file.
SourceFile look_at_source(const std::string& path);

/// Tells which files lie outside of a folder although their paths begin with it: by links, "..", or
/// absolute paths after it.
class Outside {
public:
    explicit Outside(const std::string& root);
    /// Fast for files of one folder after the other.
    bool holds(const std::string& path);

private:
    std::filesystem::path root_, folder_, real_folder_;
};

/// Adds the images of folder `root`, each subfolder a class. Links are followed, but no folder is
/// read twice. Returns the paths of the archives in `root` if its folders hold no image: then the
/// archives are the sources. Throws Exit::bad_input if a folder cannot be read, or if there are
/// neither folders nor archives.
std::vector<std::string> add_folder(const std::string& root, ImageList& to);

}  // namespace convoy
