// Decodes uncompressed BMP, whose rows are stored as they are. Allocates memory only when all rows
// are known to lie in the file.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "data/image_file.h"
#include "data/ordered_bytes.h"

namespace convoy {
namespace {

constexpr uint64_t file_header = 14;

[[noreturn]] void is_not_read(const std::string& what) {
    throw BadImage(ImageFault::other_format, "is a BMP " + what + ", which is not read");
}

/// The bits of a pixel that hold one channel. in() converts their value to 8 bits.
struct ChannelBits {
    uint32_t mask = 0;
    uint8_t in(uint32_t pixel) const {
        const int shift = std::countr_zero(mask);
        return uint8_t(uint64_t((pixel & mask) >> shift) * 255 / (mask >> shift));
    }
    bool contiguous() const {
        if (mask == 0) return false;
        const uint32_t ones = mask >> std::countr_zero(mask);
        return (ones & (ones + 1)) == 0;
    }
};

/// The checked headers of a file.
class BmpHeader {
public:
    explicit BmpHeader(FileBytes file) : bytes_(file, true) {
        constexpr std::array<uint64_t, 7> sizes = {12, 40, 52, 56, 64, 108, 124};
        if (!bytes_.has(0, file_header + 4)) ends_too_early();
        size_ = bytes_.number(file_header, 4);
        if (std::find(sizes.begin(), sizes.end(), size_) == sizes.end())
            is_not_read("with a header of " + std::to_string(size_) + " bytes");
        if (!bytes_.has(file_header, size_)) ends_too_early();
        read_size();
        read_compression();
        check_rows();
    }

    int height() const { return int(height_); }
    int width() const { return int(width_); }
    int bits() const { return bits_; }
    bool from_above() const { return from_above_; }
    bool has_alpha() const { return has_alpha_; }
    /// Returns the offset in the file of row `y`, counted from the top.
    uint64_t row(int y) const { return first_ + row_bytes_ * uint64_t(from_above_ ? y : height_ - 1 - y); }
    const std::array<ChannelBits, 3>& channels() const { return channels_; }

    /// Returns red, green and blue of each colour; black beyond the table's end.
    std::array<uint8_t, 256 * 3> colours() const {
        const uint64_t used = old() ? 0 : bytes_.number(file_header + 32, 4), all = uint64_t(1) << bits_;
        const uint64_t entry = old() ? 3 : 4, from = file_header + size_;
        const uint64_t count = std::min({used == 0 ? all : used, all, (first_ - from) / entry});
        std::array<uint8_t, 256 * 3> table{};
        for (uint64_t i = 0; i < count; ++i)
            for (uint64_t c = 0; c < 3; ++c) table[i * 3 + c] = uint8_t(bytes_.number(from + i * entry + 2 - c, 1));
        return table;
    }

private:
    bool old() const { return size_ == 12; }
    [[noreturn]] static void ends_too_early() { throw BadImage(ImageFault::truncated, "BMP: ends too early"); }

    void read_size() {
        const int number = old() ? 2 : 4;
        const uint64_t at = file_header + 4;
        width_ = old() ? int64_t(bytes_.number(at, 2)) : int32_t(bytes_.number(at, 4));
        height_ = old() ? int64_t(bytes_.number(at + 2, 2)) : int32_t(bytes_.number(at + 4, 4));
        bits_ = int(bytes_.number(at + 2 * uint64_t(number) + 2, 2));
        from_above_ = height_ < 0;
        height_ = from_above_ ? -height_ : height_;
        check_image_size(height_, width_);
    }

    void read_compression() {
        enum : uint64_t { plain, rle8, rle4, masks, jpeg, png, masks_with_alpha };
        const uint64_t how = old() ? plain : bytes_.number(file_header + 16, 4);
        const bool direct = bits_ == 16 || bits_ == 24 || bits_ == 32;
        if (!direct && bits_ != 1 && bits_ != 4 && bits_ != 8) is_not_read("of " + std::to_string(bits_) + " bits");
        if (how == rle8 || how == rle4) is_not_read("with run-length codes");
        if (how == jpeg || how == png) is_not_read("that holds a JPEG or PNG");
        const bool masked = size_ != 64 && direct && (how == masks || how == masks_with_alpha);
        if (how != plain && !masked) is_not_read("of compression " + std::to_string(how));
        channels_ = bits_ == 16 ? std::array<ChannelBits, 3>{{{0x7c00}, {0x3e0}, {0x1f}}}
                                : std::array<ChannelBits, 3>{{{0xff0000}, {0xff00}, {0xff}}};
        if (masked) read_masks(how == masks_with_alpha);
    }

    /// Reads the masks. They lie in the header or, if it has 40 bytes, after it. If there are none,
    /// the usual masks apply.
    void read_masks(bool alpha) {
        constexpr uint64_t at = file_header + 40;
        const bool within = size_ > 40;
        if (!bytes_.has(at, alpha ? 16 : 12)) ends_too_early();
        const auto mask = [&](uint64_t c) { return uint32_t(bytes_.number(at + c * 4, 4)); };
        has_alpha_ = (within ? size_ >= 56 : alpha) && mask(3) != 0;
        if ((mask(0) | mask(1) | mask(2)) == 0) return;
        for (uint64_t c = 0; c < 3; ++c) {
            channels_[c] = {mask(c)};
            if (!channels_[c].contiguous() || uint64_t(mask(c)) >> bits_ != 0)
                is_not_read("with channels of unusual bits");
        }
    }

    void check_rows() {
        first_ = bytes_.number(10, 4);
        row_bytes_ = (uint64_t(width_) * uint64_t(bits_) + 31) / 32 * 4;
        if (first_ < file_header + size_) throw BadImage(ImageFault::damaged, "BMP: its pixels begin in its header");
        if (!bytes_.has(first_, row_bytes_ * uint64_t(height_))) ends_too_early();
    }

    OrderedBytes bytes_;
    uint64_t size_ = 0, first_ = 0, row_bytes_ = 0;  // bytes of the header; offset of the pixels; bytes of a row
    int64_t height_ = 0, width_ = 0;
    int bits_ = 0;
    bool from_above_ = false, has_alpha_ = false;
    std::array<ChannelBits, 3> channels_{};
};

/// Reads a row of up to 8 bits per pixel, the first pixel in the high bits.
void read_indices(const uint8_t* row, const BmpHeader& header, const std::array<uint8_t, 256 * 3>& colours,
                  uint8_t* to) {
    const int bits = header.bits(), in_byte = 8 / bits, mask = (1 << bits) - 1;
    for (int x = 0; x < header.width(); ++x, to += 3) {
        const int index = row[x / in_byte] >> (8 - bits - x % in_byte * bits) & mask;
        std::memcpy(to, &colours[size_t(index) * 3], 3);
    }
}

void read_direct(const uint8_t* row, const BmpHeader& header, uint8_t* to) {
    const int bytes = header.bits() / 8;
    for (int x = 0; x < header.width(); ++x, row += bytes) {
        uint32_t pixel = 0;
        for (int i = 0; i < bytes; ++i) pixel |= uint32_t(row[i]) << 8 * i;
        for (const ChannelBits& channel : header.channels()) *to++ = channel.in(pixel);
    }
}

}  // namespace

void decode_bmp(FileBytes bytes, RgbImage& to) {
    const BmpHeader header(bytes);
    to.note(ImageNote::bmp);
    if (header.has_alpha()) to.note(ImageNote::alpha);
    to.set_size(header.height(), header.width());
    to.pixels.resize(size_t(to.height) * size_t(to.width) * 3);
    const bool indices = header.bits() <= 8;
    const std::array<uint8_t, 256 * 3> colours = indices ? header.colours() : std::array<uint8_t, 256 * 3>{};
    for (int y = 0; y < to.height; ++y) {
        const uint8_t* row = bytes.data() + header.row(y);
        uint8_t* out = &to.pixels[size_t(y) * size_t(to.width) * 3];
        indices ? read_indices(row, header, colours, out) : read_direct(row, header, out);
    }
}

}  // namespace convoy
