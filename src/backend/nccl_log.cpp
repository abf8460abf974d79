#include "backend/nccl_log.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr const char *level = "NCCL_DEBUG", *place = "NCCL_DEBUG_FILE", *name = "convoy-nccl";

bool has_threads() {
    std::error_code none;
    const fs::directory_iterator tasks("/proc/self/task", none);
    return std::distance(begin(tasks), end(tasks)) != 1;
}

}  // namespace

void keep_nccl_log() {
    if (std::getenv(level) || std::getenv(place) || has_threads()) return;
    const int file = memfd_create(name, MFD_CLOEXEC);  // never closed: NCCL opens it again by its path
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    if (file < 0 || ::access(path.c_str(), W_OK) != 0) return;
    ::setenv(level, "INFO", 1);
    ::setenv(place, path.c_str(), 1);
}

std::string nccl_log() {
    const char* path = std::getenv(place);
    std::error_code none;
    if (!path || !fs::read_symlink(path, none).string().starts_with("/memfd:" + std::string(name))) return "";
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace convoy
