// Lists the images in tar archives and their classes, for list_images().
#pragma once
#include <string>

#include "data/image_list.h"

namespace convoy {

/// True if `place` is a tar archive. A gzipped one is first unpacked into folder `name` of
/// `unpack_in`, and `place` becomes the plain archive. Throws Exit::bad_input if `place` is not a
/// file, is damaged, or is another kind of archive. Also throws it if the file is no archive
/// although its name says so.
bool is_archive(FilePlace& place, const OwnFolder* unpack_in, const std::string& name);
/// Adds the images of an archive by the rules of list_images(). `shown`: its path as the user gave
/// it.
void add_archive(const FilePlace&, const std::string& shown, ImageList& to);

}  // namespace convoy
