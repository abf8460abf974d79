#include "base/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace convoy {

std::string cache_folder() {
    const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
    if (cache && *cache) return std::string(cache) + "/convoy";
    return home && *home ? std::string(home) + "/.cache/convoy" : "";
}

bool is_cache_file(int fd) {
    constexpr off_t most = 16 << 20;  // bytes
    struct stat status{};
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= most;
}

std::string text_of_cache(int fd) {
    std::string text;
    char block[4096];
    ::lseek(fd, 0, SEEK_SET);
    if (!is_cache_file(fd)) return text;
    for (ssize_t n; (n = ::read(fd, block, sizeof block)) > 0;) text.append(block, size_t(n));
    return text;
}

std::string text_of_cache(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return "";
    std::string text = text_of_cache(file);
    ::close(file);
    return text;
}

}  // namespace convoy
