// Recognises image formats, and applies EXIF orientations.
#include "data/image_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace convoy {
namespace {

bool begins_with(FileBytes bytes, const char* magic, size_t length) {
    return bytes.size() >= length && std::memcmp(bytes.data(), magic, length) == 0;
}

/// The directory of tags in EXIF's TIFF structure, in either byte order.
class Tiff {
public:
    explicit Tiff(FileBytes bytes) : bytes_(bytes), little_(begins_with(bytes, "II*\0", 4)) {}
    bool valid() const { return little_ || begins_with(bytes_, "MM\0*", 4); }
    /// Returns the number in `bytes` (2 or 4) bytes at offset `at`; 0 beyond the end.
    uint64_t number(uint64_t at, int bytes) const {
        uint64_t value = 0;
        if (at > bytes_.size() || bytes_.size() - at < size_t(bytes)) return 0;
        for (int i = 0; i < bytes; ++i) value = value << 8 | bytes_[at + uint64_t(little_ ? bytes - 1 - i : i)];
        return value;
    }

private:
    FileBytes bytes_;
    bool little_;
};

}  // namespace

int exif_orientation(FileBytes segment) {
    constexpr size_t header = 6, entry_bytes = 12;
    constexpr uint64_t tag_orientation = 0x112, type_short = 3;
    if (!begins_with(segment, "Exif\0\0", header)) return 1;
    const Tiff tiff(segment.subspan(header));
    if (!tiff.valid()) return 1;
    const uint64_t directory = tiff.number(4, 4), entries = tiff.number(directory, 2);
    for (uint64_t i = 0; i < entries; ++i) {
        const uint64_t entry = directory + 2 + i * entry_bytes;
        if (tiff.number(entry, 2) != tag_orientation) continue;
        const uint64_t value = tiff.number(entry + 8, 2);
        const bool holds_one = tiff.number(entry + 2, 2) == type_short && tiff.number(entry + 4, 4) == 1;
        return holds_one && value >= 1 && value <= 8 ? int(value) : 1;
    }
    return 1;
}

void turn_upright(RgbImage& image, int orientation) {
    if (orientation == 1) return;
    const int h = image.height, w = image.width;
    const bool on_its_side = orientation >= 5;
    const int rows = on_its_side ? w : h, columns = on_its_side ? h : w;
    // The ends from which rows and columns of the stored image are read.
    const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    std::vector<uint8_t> upright(image.pixels.size());
    uint8_t* to = upright.data();
    for (int row = 0; row < rows; ++row)
        for (int column = 0; column < columns; ++column, to += 3) {
            const int y = on_its_side ? column : row, x = on_its_side ? row : column;
            const int64_t stored = int64_t(from_below ? h - 1 - y : y) * w + (from_right ? w - 1 - x : x);
            std::memcpy(to, &image.pixels[size_t(stored) * 3], 3);
        }
    image.pixels.swap(upright);
    image.height = rows;
    image.width = columns;
    image.note(ImageNote::turned);
}

void check_image_size(int64_t height, int64_t width, const std::string& verb, ImageFault fault) {
    if (height < 1 || width < 1) throw BadImage(ImageFault::damaged, "has no pixels");
    if (height > most_image_side || width > most_image_side || height * width > most_image_pixels)
        throw BadImage(fault, verb + " " + std::to_string(height) + "x" + std::to_string(width) +
                                  " pixels, more than " + std::to_string(most_image_side) + " a side or " +
                                  std::to_string(most_image_pixels) + " in all");
}

std::string other_format(FileBytes bytes) {
    struct Format {
        size_t at;
        std::string_view magic;
        const char* name;
    };
    constexpr Format formats[] = {{0, "GIF8", "a GIF"},
                                  {8, "WEBP", "a WebP image"},
                                  {0, std::string_view("II*\0", 4), "a TIFF"},
                                  {0, std::string_view("MM\0*", 4), "a TIFF"},
                                  {0, "BM", "a BMP"},
                                  {4, "ftypavif", "an AVIF image"},
                                  {4, "ftyphei", "a HEIC image"},
                                  {4, "ftypmif1", "a HEIF image"},
                                  {4, "jP  ", "a JPEG 2000 image"},
                                  {0, "\xff\x0a", "a JPEG XL image"},
                                  {4, "JXL ", "a JPEG XL image"},
                                  {0, "%PDF", "a PDF"},
                                  {0, "<!DOCTYPE", "a web page"},
                                  {0, "<!doctype", "a web page"},
                                  {0, "<html", "a web page"},
                                  {0, "<svg", "an SVG"},
                                  {0, "<?xml", "an SVG or other XML"}};
    for (const Format& f : formats)
        if (bytes.size() > f.at && begins_with(bytes.subspan(f.at), f.magic.data(), f.magic.size())) return f.name;
    return "";
}

void decode_image(FileBytes bytes, RgbImage& to) {
    to.notes = 0;
    if (begins_with(bytes, "\xff\xd8\xff", 3)) return decode_jpeg(bytes, to);
    if (begins_with(bytes, "\x89PNG\r\n\x1a\n", 8)) return decode_png(bytes, to);
    if (bytes.empty()) throw BadImage(ImageFault::empty, "is empty");
    const std::string format = other_format(bytes);
    throw BadImage(ImageFault::other_format,
                   format.empty() ? "is neither JPEG nor PNG" : "is " + format + ", neither JPEG nor PNG");
}

}  // namespace convoy
