// Reads numbers in either byte order from bytes of a file.
#pragma once
#include <cstdint>
#include <span>

namespace convoy {

class OrderedBytes {
public:
    OrderedBytes(std::span<const uint8_t> bytes, bool little_endian) : bytes_(bytes), little_(little_endian) {}

    uint64_t size() const { return bytes_.size(); }
    /// True if `count` bytes lie at offset `at`.
    bool has(uint64_t at, uint64_t count) const { return at <= size() && size() - at >= count; }
    /// Returns the unsigned number in `count` (1 to 8) bytes at offset `at`; 0 beyond the end.
    uint64_t number(uint64_t at, int count) const {
        uint64_t value = 0;
        if (!has(at, uint64_t(count))) return 0;
        for (int i = 0; i < count; ++i) value = value << 8 | bytes_[at + uint64_t(little_ ? count - 1 - i : i)];
        return value;
    }

private:
    std::span<const uint8_t> bytes_;
    bool little_;
};

}  // namespace convoy
