// Files that take far less of a disk than they have bytes.
#pragma once
#include <cstdint>
#include <string>

namespace convoy {

/// Throws Exit::bad_input naming `path` if an open file has `size` bytes, at least 16 MiB, of which
/// less than a tenth is stored. Reading the holes of such a file takes hours, or gigabytes of
/// memory. Does nothing where the file system shows no holes. Sets the offset of a file of 16 MiB
/// or more to its beginning.
void check_is_no_hole(int fd, int64_t size, const std::string& path);

}  // namespace convoy
