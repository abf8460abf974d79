#include "data/disk_room.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "base/error.h"

namespace convoy {

void check_disk_room(int fd, const std::string& path, uint64_t bytes, Reserve reserve, const std::string& purpose) {
    constexpr uint64_t mib = 1 << 20, most_spared = 1024 * mib;
    struct statvfs disk{};
    if (::fstatvfs(fd, &disk) != 0 || disk.f_blocks == 0) return;
    const uint64_t unit = disk.f_frsize, room = disk.f_bavail * unit;
    const uint64_t spared = reserve == Reserve::none ? 0 : std::min(most_spared, disk.f_blocks * unit / 20);
    if (room < bytes + spared)
        fail(Exit::io, path + ": only " + std::to_string(room / mib) + " MiB are free there, too few to " + purpose +
                           "; make room, or choose another --to");
}

}  // namespace convoy
