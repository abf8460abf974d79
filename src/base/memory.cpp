#include "base/memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace convoy {
namespace {

/// The line "KEY:   123 kB" of a file in /proc, in bytes.
size_t bytes_of(const char* path, const std::string& key, size_t otherwise) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key)) return std::stoull(line.substr(key.size())) << 10;
    return otherwise;
}

}  // namespace

size_t available_memory() { return bytes_of("/proc/meminfo", "MemAvailable:", std::numeric_limits<size_t>::max()); }
size_t peak_memory() { return bytes_of("/proc/self/status", "VmHWM:", 0); }

}  // namespace convoy
