// The table of picture formats: by which bytes and names files are recognised, and what decodes
// them. A format is added there, and nowhere else.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "data/image_file.h"

namespace convoy {

struct ImageFormat {
    struct Magic {
        size_t at = 0;             ///< offset in the file
        std::string_view bytes{};  ///< empty: none
    };
    const char* name;                         ///< "GIF"
    const char* described;                    ///< "a GIF"
    std::array<std::string_view, 2> endings;  ///< of file names in lower case, ".gif"; empty: none
    std::array<Magic, 5> magics;              ///< alternatives
    void (*decode)(FileBytes, RgbImage& to);  ///< null: the format is named, but not read
};

/// Bytes at the beginning of a file that say its format.
constexpr size_t image_magic_bytes = 16;
/// Returns the format of a file that begins with these bytes; null if unknown.
const ImageFormat* format_of_bytes(FileBytes);
/// Returns the format that the ending of a file's name says, in any case; null if unknown.
const ImageFormat* format_of_name(const std::string& file);

/// Returns "JPEG, PNG, … or TIFF": the formats that are read.
std::string read_formats();
/// Returns ".jpg, .jpeg, … or .tiff": the endings of files that are read.
std::string read_endings();

}  // namespace convoy
