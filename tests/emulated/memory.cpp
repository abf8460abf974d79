#include "tests/emulated/memory.h"

#include <sys/mman.h>

#include <cstring>
#include <iterator>

namespace convoy::test {
namespace {

constexpr size_t page = 4096, alignment = 256;

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

void* Memory::allocate(size_t bytes, Of of) {
    const size_t used = rounded(bytes, alignment), pages = rounded(used, page);
    if (bytes > available()) return nullptr;
    void* mapped = mmap(nullptr, pages + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED || mprotect(mapped, pages, PROT_READ | PROT_WRITE) != 0) return nullptr;
    char* at = static_cast<char*>(mapped) + pages - used;
    std::memset(at, 0xff, used);
    blocks_[at] = {mapped, pages, bytes, of};
    if (of == Of::device) taken_ += bytes;
    return at;
}

bool Memory::release(void* at) {
    const auto found = blocks_.find(at);
    if (found == blocks_.end()) return false;
    const Block block = found->second;
    blocks_.erase(found);
    if (block.of == Of::device) taken_ -= block.bytes;
    // Keep the addresses reserved, so that no later block gets them.
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(block.mapped, block.mapped_bytes, PROT_NONE, flags, -1, 0) == block.mapped;
}

bool Memory::holds(const void* at) const {
    const auto next = blocks_.upper_bound(at);
    if (next == blocks_.begin()) return false;
    const auto& [begin, block] = *std::prev(next);
    return at < static_cast<const char*>(begin) + block.bytes;
}

}  // namespace convoy::test
