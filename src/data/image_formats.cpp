#include "data/image_formats.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/nearest_name.h"
#include "base/text.h"

namespace convoy {
namespace {
using namespace std::string_view_literals;

// The first row that matches counts.
constexpr ImageFormat formats[] = {
    {"JPEG", "a JPEG", {".jpg", ".jpeg"}, {{{0, "\xff\xd8\xff"}}}, decode_jpeg},
    {"PNG", "a PNG", {".png"}, {{{0, "\x89PNG\r\n\x1a\n"}}}, decode_png},
    {"WebP", "a WebP image", {".webp"}, {{{8, "WEBP"}}}, decode_webp},
    {"GIF", "a GIF", {".gif"}, {{{0, "GIF87a"}, {0, "GIF89a"}}}, decode_gif},
    {"BMP", "a BMP", {".bmp"}, {{{0, "BM"}}}, decode_bmp},
    // The last two magics are BigTIFF's.
    {"TIFF",
     "a TIFF",
     {".tif", ".tiff"},
     {{{0, "II*\0"sv}, {0, "MM\0*"sv}, {0, "II+\0"sv}, {0, "MM\0+"sv}}},
     decode_tiff},
    {"AVIF", "an AVIF image", {".avif"}, {{{4, "ftypavif"}}}, nullptr},
    {"HEIC", "a HEIC image", {".heic"}, {{{4, "ftyphei"}}}, nullptr},
    {"HEIF", "a HEIF image", {".heif"}, {{{4, "ftypmif1"}}}, nullptr},
    {"JPEG 2000", "a JPEG 2000 image", {".jp2"}, {{{4, "jP  "}}}, nullptr},
    {"JPEG XL", "a JPEG XL image", {".jxl"}, {{{0, "\xff\x0a"}, {4, "JXL "}}}, nullptr},
    {"PDF", "a PDF", {}, {{{0, "%PDF"}}}, nullptr},
    {"web page", "a web page", {}, {{{0, "<!DOCTYPE"}, {0, "<!doctype"}, {0, "<html"}}}, nullptr},
    {"SVG", "an SVG", {}, {{{0, "<svg"}}}, nullptr},
    {"SVG or other XML", "an SVG or other XML", {}, {{{0, "<?xml"}}}, nullptr}};

bool has(FileBytes bytes, const ImageFormat::Magic& magic) {
    return !magic.bytes.empty() && bytes.size() >= magic.at + magic.bytes.size() &&
           std::memcmp(bytes.data() + magic.at, magic.bytes.data(), magic.bytes.size()) == 0;
}

}  // namespace

const ImageFormat* format_of_bytes(FileBytes bytes) {
    for (const ImageFormat& format : formats)
        for (const ImageFormat::Magic& magic : format.magics)
            if (has(bytes, magic)) return &format;
    return nullptr;
}

const ImageFormat* format_of_name(const std::string& file) {
    const std::string ending = lower_case(std::filesystem::path(file).extension());
    if (ending.empty()) return nullptr;
    for (const ImageFormat& format : formats)
        if (std::find(format.endings.begin(), format.endings.end(), ending) != format.endings.end()) return &format;
    return nullptr;
}

std::string read_formats() {
    std::vector<std::string> names;
    for (const ImageFormat& format : formats)
        if (format.decode) names.emplace_back(format.name);
    return list_of(names);
}

std::string read_endings() {
    std::vector<std::string> endings;
    for (const ImageFormat& format : formats)
        for (const std::string_view ending : format.endings)
            if (format.decode && !ending.empty()) endings.emplace_back(ending);
    return list_of(endings);
}

}  // namespace convoy
