// Free space of a disk, which other programs need too.
#pragma once
#include <cstdint>
#include <string>

namespace convoy {

/// Throws Exit::io naming `path` if there is no room for `bytes` more bytes on the disk of the open
/// file or folder `fd`. A twentieth of the disk, but at most 1 GiB, stays free for other programs.
/// `purpose` completes "too few to": "unpack a.tar.gz".
void check_disk_room(int fd, const std::string& path, uint64_t bytes, const std::string& purpose);

}  // namespace convoy
