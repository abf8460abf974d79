// Free space of a disk, which other programs need too.
#pragma once
#include <cstdint>
#include <string>

namespace convoy {

/// The part of the disk that stays free for other programs: nothing, or a twentieth of the disk
/// (at most 1 GiB).
enum class Reserve { none, twentieth };

/// Throws Exit::io naming `path` if there is no room for `bytes` more bytes on the disk of the open
/// file or folder `fd`. `purpose` completes "too few to": "unpack a.tar.gz".
void check_disk_room(int fd, const std::string& path, uint64_t bytes, Reserve, const std::string& purpose);

}  // namespace convoy
