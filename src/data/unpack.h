// Unpacks gzipped tar archives, whose members ranks read at any place.
#pragma once
#include <string>

namespace convoy {

/// Unpacks `path` into `folder`, an OwnFolder that is made for it, and returns its path there.
/// Throws Exit::bad_input for a damaged stream, for one that holds no tar archive, and for one that
/// grows as no archive of images does. Throws Exit::io if the disk has too little room. Leaves no
/// file then.
std::string unpack_tar(const std::string& path, const std::string& folder);

}  // namespace convoy
