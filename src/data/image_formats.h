// The table of picture formats: the bytes and names that identify a file's format, and its decoder.
// To add a format, extend only this table.
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

/// Number of bytes at the beginning of a file that determine its format.
constexpr size_t image_magic_bytes = 16;
/// Returns the format of a file that begins with these bytes; null if unknown.
const ImageFormat* format_of_bytes(FileBytes);
/// Returns the format for the ending of a file's name, in any case; null if unknown.
const ImageFormat* format_of_name(const std::string& file);

/// Returns the formats that are read: "JPEG, PNG, … or TIFF".
std::string read_formats();
/// Returns the endings of files that are read: ".jpg, .jpeg, … or .tiff".
std::string read_endings();

}  // namespace convoy
