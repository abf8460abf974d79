#include "data/image_names.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "base/text.h"
#include "data/image_formats.h"

namespace convoy {
namespace fs = std::filesystem;

bool is_image_name(const std::string& name) {
    const ImageFormat* format = format_of_name(name);
    return format && format->decode;
}

bool is_other_picture_name(const std::string& name) {
    const ImageFormat* format = format_of_name(name);
    return format && !format->decode;
}

bool is_archive_name(const std::string& name) {
    const std::string text = lower_case(name);
    constexpr const char* endings[] = {".tar",    ".tar.gz", ".tgz",     ".tar.bz2", ".tbz",     ".tbz2",
                                       ".tar.xz", ".txz",    ".tar.zst", ".tzst",    ".tar.lz4", ".tar.lz",
                                       ".tar.z",  ".zip",    ".7z",      ".rar"};
    return std::any_of(std::begin(endings), std::end(endings), [&](const char* end) { return text.ends_with(end); });
}

bool is_hidden(const std::string& name) {
    constexpr std::string_view made_by_systems[] = {"__MACOSX", "@eaDir",    "lost+found", "$RECYCLE.BIN",
                                                    "#recycle", "#snapshot", "~snapshot",  "System Volume Information"};
    return name.starts_with('.') ||
           std::find(std::begin(made_by_systems), std::end(made_by_systems), name) != std::end(made_by_systems);
}

bool has_hidden_part(const std::string& path) {
    const fs::path parts(path);
    return std::any_of(parts.begin(), parts.end(),
                       [](const fs::path& part) { return part != "." && part != ".." && is_hidden(part); });
}

bool is_number(const std::string& label) {
    return !label.empty() && label.size() <= 9 && label.find_first_not_of("0123456789") == std::string::npos;
}

int64_t number_of(const std::string& label) {
    int64_t value = -1;
    std::from_chars(label.data(), label.data() + label.size(), value);
    return value;
}

std::string normal_name(const std::string& path) { return fs::path(path).lexically_normal().relative_path(); }

}  // namespace convoy
