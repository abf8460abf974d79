#include "data/tiff_directory.h"

#include <array>

#include "data/ordered_bytes.h"

namespace convoy {
namespace {

/// Offsets and sizes in a file's header and directory, which are larger in BigTIFF.
struct TiffLayout {
    uint64_t at_first, count_bytes, tag_bytes, number_bytes;
};
constexpr TiffLayout classic{4, 2, 12, 4}, big{8, 8, 20, 8};

/// Returns the bytes of a value by TIFF's type; 0 for an unknown type, whose tag libtiff skips.
uint64_t bytes_of_type(uint64_t type) {
    constexpr std::array<uint8_t, 19> sizes = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
    return type < sizes.size() ? sizes[type] : 0;
}

}  // namespace

void check_tiff_directory(FileBytes file) {
    const OrderedBytes bytes(file, !file.empty() && file[0] == 'I');
    const TiffLayout& layout = bytes.number(2, 2) == 43 ? big : classic;
    const uint64_t directory = bytes.number(layout.at_first, int(layout.number_bytes));
    const uint64_t tags = bytes.number(directory, int(layout.count_bytes));
    const uint64_t first = directory + layout.count_bytes;
    if (directory < layout.at_first || !bytes.has(directory, layout.count_bytes) || tags > bytes.size() ||
        !bytes.has(first, tags * layout.tag_bytes + layout.number_bytes))
        throw BadImage(ImageFault::truncated, "TIFF: ends before its directory of tags");
    uint64_t claimed = 0;
    for (uint64_t tag = 0; tag < tags; ++tag) {
        const uint64_t at = first + tag * layout.tag_bytes;
        const uint64_t size = bytes_of_type(bytes.number(at + 2, 2));
        const uint64_t count = bytes.number(at + 4, int(layout.number_bytes));
        // libtiff does not read values that are larger than the file.
        if (size > 0 && count <= bytes.size() / size) claimed += count * size;
    }
    if (claimed > 2 * bytes.size()) throw BadImage(ImageFault::damaged, "TIFF: its tags claim more bytes than it has");
}

}  // namespace convoy
