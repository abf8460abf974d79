// Images in tar archives, and their classes; for list_images.
#pragma once
#include <string>

#include "data/image_list.h"

namespace convoy {

/// Whether `place` is a tar archive. A gzipped one is unpacked first, as unpack_tar() does, and
/// `place` becomes that of the plain one, in folder `name` of `unpack_in`. Throws Exit::bad_input
/// for what is no file, for a stream that is damaged, for archives of other kinds, and for a file
/// that is no archive but has the name of one.
bool is_archive(FilePlace& place, const OwnFolder* unpack_in, const std::string& name);
/// Adds the images of an archive, as list_images says. `shown`: its path as the user gave it.
void add_archive(const FilePlace&, const std::string& shown, ImageList& to);

}  // namespace convoy
