// Numbers chosen by a fuzzer's bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace convoy::test {

/// Makes numbers from bytes; zeros when no bytes are left.
class FuzzBytes {
public:
    explicit FuzzBytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
    uint64_t number(int bytes) {
        uint64_t value = 0;
        for (int i = 0; i < bytes; ++i) value = value << 8 | take();
        return value;
    }
    size_t below(size_t count) { return size_t(take()) % count; }
    bool yes() { return take() & 1; }

private:
    uint8_t take() {
        if (bytes_.empty()) return 0;
        const uint8_t first = bytes_.front();
        bytes_ = bytes_.subspan(1);
        return first;
    }
    std::span<const uint8_t> bytes_;
};

}  // namespace convoy::test
