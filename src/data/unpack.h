// Unpacks gzipped tar archives, whose members ranks read at any place.
#pragma once
#include <string>

#include "base/file_place.h"
#include "base/own_folder.h"

namespace convoy {

/// Unpacks `path` into folder `name` of `above`, which is made. The place that is returned is good
/// for as long as `above` is there. Throws Exit::bad_input for a damaged stream, for one that holds
/// no tar archive, and for one that grows as no archive of images does. Throws Exit::io if the disk
/// has too little room. Leaves no file then.
FilePlace unpack_tar(const std::string& path, const OwnFolder& above, const std::string& name);

}  // namespace convoy
