// Memory of the emulated device: each block lies before a page that cannot be touched, and is one
// such itself once it is freed, so that what works on an address it should not ends the process.
#pragma once
#include <cstddef>
#include <map>

namespace convoy::test {

class Memory {
public:
    static constexpr size_t total = size_t(16) << 30;  ///< bytes
    enum class Of : bool { device, host };             ///< pinned memory of the host is not the device's
    /// NaN, as memory that was not written is; null if there is not enough.
    void* allocate(size_t bytes, Of);
    bool release(void*);
    /// Whether an address lies in a block: else it is pageable memory of the host.
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
