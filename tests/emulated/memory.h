// Memory of the emulated device. Each block ends at a page that cannot be accessed, and becomes
// inaccessible itself once it is freed. So work on a wrong address ends the process.
#pragma once
#include <cstddef>
#include <map>

namespace convoy::test {

class Memory {
public:
    static constexpr size_t total = size_t(16) << 30;  ///< bytes
    enum class Of : bool { device, host };             ///< pinned host memory does not count as the device's
    /// Returns memory filled with NaN, like memory that was not written; null if there is not
    /// enough.
    void* allocate(size_t bytes, Of);
    bool release(void*);
    /// Returns true if an address lies in a block; otherwise it is pageable host memory.
    bool holds(const void*) const;
    size_t available() const { return total - taken_; }

private:
    struct Block {
        void* mapped;
        size_t mapped_bytes, bytes;
        Of of;
    };
    std::map<const void*, Block> blocks_;  // by address
    size_t taken_ = 0;
};

}  // namespace convoy::test
