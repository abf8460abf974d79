// Chooses a file's decoder, checks the sizes that files claim, and applies EXIF orientations.
#include "data/image_file.h"

#include <cstring>

#include "data/image_formats.h"
#include "data/ordered_bytes.h"

namespace convoy {
namespace {

bool begins_with(FileBytes bytes, const char* magic, size_t length) {
    return bytes.size() >= length && std::memcmp(bytes.data(), magic, length) == 0;
}

}  // namespace

int exif_orientation(FileBytes content) {
    constexpr size_t header = 6, entry_bytes = 12;
    constexpr uint64_t tag_orientation = 0x112, type_short = 3;
    if (begins_with(content, "Exif\0\0", header)) content = content.subspan(header);
    const bool little = begins_with(content, "II*\0", 4);
    if (!little && !begins_with(content, "MM\0*", 4)) return 1;
    const OrderedBytes tiff(content, little);
    const uint64_t directory = tiff.number(4, 4), entries = tiff.number(directory, 2);
    for (uint64_t i = 0; i < entries; ++i) {
        const uint64_t entry = directory + 2 + i * entry_bytes;
        if (entry + entry_bytes > content.size()) break;  // it claims more entries than it has
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
    // True if stored rows are read from the last to the first; likewise for stored columns.
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

void check_density(int64_t height, int64_t width, int64_t decoded, size_t file, int64_t most_a_byte) {
    if (decoded <= int64_t(file) * most_a_byte) return;
    throw BadImage(ImageFault::too_large, "claims " + std::to_string(height) + "x" + std::to_string(width) +
                                              " pixels, more than its " + std::to_string(file) + " bytes can hold");
}

void decode_image(FileBytes bytes, RgbImage& to) {
    to.notes = 0;
    if (bytes.empty()) throw BadImage(ImageFault::empty, "is empty");
    const ImageFormat* format = format_of_bytes(bytes);
    if (format && format->decode) return format->decode(bytes, to);
    const std::string other = format ? std::string(format->described) + ", " : "";
    throw BadImage(ImageFault::other_format, "is " + other + "not " + read_formats());
}

}  // namespace convoy
