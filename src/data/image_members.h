// Images in tar archives, and their classes; for list_images.
#pragma once
#include <string>

#include "data/image_list.h"

namespace convoy {

/// Whether a file's name ends in .jpg, .jpeg or .png, in any case.
bool is_image_name(const std::string& name);
/// A path without "." and "..", and without a slash at its beginning: as lists and archives may
/// both have it.
std::string normal_name(const std::string& path);
/// Whether `path` is a tar archive; a gzipped one is unpacked into folder `unpacked` first, and
/// `path` becomes its place there. Throws Exit::bad_input for what is no file, and for a stream
/// that is damaged.
bool is_archive(std::string& path, const std::string& unpacked, ImageList&);
/// Of a file that holds an image, or several.
struct SourceFile {
    int64_t bytes, changed;  ///< nanoseconds since 1970
};
/// Throws Exit::bad_input if there is no such file.
SourceFile look_at_source(const std::string& path);
/// Adds the images of an archive, as list_images says.
void add_archive(const std::string& path, ImageList& to);

}  // namespace convoy
