// Writes messages in protobuf's wire format (protobuf.dev/programming-guides/encoding). A field is
// its number and kind, then a number, or a length and bytes.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace convoy {

class ProtoMessage {
public:
    const std::string& bytes() const { return bytes_; }

    void number(int field, int64_t value) {
        append_varint(uint64_t(field) << 3);
        append_varint(uint64_t(value));
    }
    void real(int field, float value) {
        constexpr uint64_t four_bytes = 5;
        append_varint(uint64_t(field) << 3 | four_bytes);
        const auto bits = std::bit_cast<uint32_t>(value);
        for (int shift = 0; shift < 32; shift += 8) bytes_ += char(bits >> shift);
    }
    /// Appends a text, bytes, or a message.
    void text(int field, std::string_view value) {
        constexpr uint64_t with_length = 2;
        append_varint(uint64_t(field) << 3 | with_length);
        append_varint(value.size());
        bytes_ += value;
    }
    void message(int field, const ProtoMessage& value) { text(field, value.bytes_); }

private:
    /// Appends seven bits per byte, the lowest first.
    void append_varint(uint64_t value) {
        for (; value >= 0x80; value >>= 7) bytes_ += char(value | 0x80);
        bytes_ += char(value);
    }

    std::string bytes_;
};

}  // namespace convoy
