#include "base/memory.h"

#include <sys/mman.h>

#include <cstdlib>
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


void* allocate_pages(size_t bytes) {
    constexpr size_t huge_page = size_t(2) << 20;
    const size_t alignment = bytes >= huge_page ? huge_page : 64;
    const size_t whole = (bytes + alignment - 1) / alignment * alignment;
    void* block = std::aligned_alloc(alignment, whole);
    if (block && alignment == huge_page) madvise(block, whole, MADV_HUGEPAGE);  // a wish: without it there are more page faults, no other harm
    return block;
}

}  // namespace convoy
