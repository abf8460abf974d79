#include "comm/segments.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <set>

namespace convoy {

std::vector<std::string> mapped_segments() {
    std::set<std::string> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        const size_t at = line.find("/dev/shm/");
        if (at == std::string::npos || line.ends_with(" (deleted)")) continue;
        const std::string path = line.substr(at), name = path.substr(path.rfind('/') + 1);
        if (name.starts_with("vader_segment.") || name.starts_with("sm_segment.")) found.insert(path);
    }
    return {found.begin(), found.end()};
}

void remove_names(const std::vector<std::string>& segments) {
    for (const std::string& path : segments) ::unlink(path.c_str());
}

void restore_names(const std::vector<std::string>& segments) {
    for (const std::string& path : segments)
        if (const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600); fd >= 0) ::close(fd);
}

}  // namespace convoy
