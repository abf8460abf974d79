#include "base/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace convoy {
namespace {

/// Returns the bytes in the line "KEY:   123 kB" of a file in /proc; `otherwise` if there is none.
size_t bytes_of(const char* path, const std::string& key, size_t otherwise) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key)) return std::stoull(line.substr(key.size())) << 10;
    return otherwise;
}

}  // namespace

size_t peak_memory() { return bytes_of("/proc/self/status", "VmHWM:", 0); }

// Uses mmap, because compilers remove an unused allocation.
bool is_available(size_t bytes) {
    void* room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return false;
    ::munmap(room, bytes);
    return true;
}

void spare_address_space() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) ::mallopt(M_ARENA_MAX, 1);
}

namespace {
constexpr size_t line = 64, huge_page = size_t(2) << 20;
size_t alignment_of(size_t bytes) { return bytes >= huge_page ? huge_page : line; }
}  // namespace

size_t whole_pages(size_t bytes) {
    return (bytes + alignment_of(bytes) - 1) / alignment_of(bytes) * alignment_of(bytes);
}

void* allocate_pages(size_t bytes) {
    void* block = std::aligned_alloc(alignment_of(bytes), whole_pages(bytes));
    if (block && bytes >= huge_page)
        madvise(block, whole_pages(bytes), MADV_HUGEPAGE);  // best effort: failure only means more page faults
    return block;
}

}  // namespace convoy
