// Unpacks gzipped tar archives, so that ranks can read members at any offset.
#pragma once
#include <string>

#include "base/file_place.h"
#include "base/own_folder.h"

namespace convoy {

/// Unpacks `path` into folder `name` in `above`. Returns the place of the plain archive,
/// which is valid as long as `above` exists. Throws Exit::bad_input if the stream is damaged, is no
/// tar archive, or is compressed more than an archive of images can be. Throws Exit::io if the disk
/// has too little room. Leaves no file if it throws.
FilePlace unpack_tar(const std::string& path, const OwnFolder& above, const std::string& name);

}  // namespace convoy
