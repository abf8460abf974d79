// Images in tar archives, and their classes; for list_images.
#pragma once
#include <string>

#include "data/image_list.h"

namespace convoy {

/// Whether `path` is a tar archive. A gzipped one is unpacked first, as unpack_tar() does, and
/// `path` becomes its place in folder `unpacked`. Throws Exit::bad_input for what is no file, for a
/// stream that is damaged, for archives of other kinds, and for a file that is no archive but has
/// the name of one.
bool is_archive(std::string& path, const std::string& unpacked);
/// Adds the images of an archive that is read at `path`, as list_images says. `shown`: its path as
/// the user gave it.
void add_archive(const std::string& path, const std::string& shown, ImageList& to);

}  // namespace convoy
