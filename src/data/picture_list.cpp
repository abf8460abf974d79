#include "data/picture_list.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/input_file.h"
#include "base/text.h"
#include "data/image_file.h"
#include "data/image_names.h"
#include "data/input_bytes.h"
#include "data/tar_index.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr size_t most_list_bytes = size_t(1) << 30;
constexpr size_t most_path_bytes = size_t(256) << 20;  // of one list; each line adds the path of the list's folder
constexpr int64_t most_file_bytes = 256 << 20;         // as convert has it

void add_folder(const std::string& folder, std::vector<Picture>& to) {
    const size_t before = to.size();
    std::error_code error;
    fs::recursive_directory_iterator entries(folder, error);
    for (const fs::recursive_directory_iterator end; !error && entries != end; entries.increment(error)) {
        const std::string name = entries->path().filename();
        std::error_code gone;
        if (is_hidden(name))
            entries.disable_recursion_pending();
        else if (is_image_name(name) && entries->is_regular_file(gone))
            to.push_back({.name = entries->path(), .path = entries->path()});
    }
    if (error) fail(Exit::bad_input, folder + ": cannot be read (" + error.message() + "); check its permissions");
    if (to.size() == before) fail(Exit::bad_input, folder + ": has no file with the name of a picture; check the path");
    std::ranges::sort(to.begin() + std::ptrdiff_t(before), to.end(), {}, &Picture::name);
}

void add_archive(const InputBytes& file, std::vector<Picture>& to) {
    const size_t before = to.size();
    index_tar(file, 0, file.size(), [&](const TarPlace& member) {
        if (!member.is_link && is_image_name(member.name) && !has_hidden_part(member.name))
            to.push_back({file.path() + ":" + member.name, file.path(), member.offset, member.bytes});
    });
    if (to.size() == before)
        fail(Exit::bad_input, file.path() + ": has no member with the name of a picture; check the path");
}

void add_list(const std::string& list, std::vector<Picture>& to) {
    const std::string advice = "a list has a path in each line";
    const fs::path folder = fs::path(list).parent_path();
    const size_t before = to.size();
    size_t bytes = 0;
    for (const std::string& line : lines_of_input(list, most_list_bytes, advice)) {
        if (line.empty()) continue;
        to.push_back({.name = line, .path = folder / line});
        bytes += to.back().path.size();
        if (bytes > most_path_bytes)
            fail(Exit::bad_input, list + ": its paths take more than 256 MiB; split it into several lists");
    }
    if (to.size() == before) fail(Exit::bad_input, list + ": is empty; " + advice);
}

void add_path(const std::string& path, std::vector<Picture>& to) {
    std::error_code error;
    if (fs::is_directory(path, error)) return add_folder(path, to);
    const InputBytes file(path);
    const std::string name = lower_case(path);
    if (name.ends_with(".txt") || name.ends_with(".lst")) return add_list(path, to);
    if (is_tar(file, 0, file.size())) return add_archive(file, to);
    if (is_archive_name(path))
        fail(Exit::bad_input, path + ": is not a plain tar archive; unpack it, and give the folder");
    to.push_back({.name = path, .path = path});
}

}  // namespace

std::vector<Picture> list_pictures(const std::vector<std::string>& paths) {
    std::vector<Picture> pictures;
    for (const std::string& path : paths) add_path(path, pictures);
    return pictures;
}

std::vector<uint8_t> read_picture(const Picture& picture) try {
    const InputBytes file(picture.path);
    const bool member = picture.offset >= 0;
    const int64_t bytes = member ? picture.bytes : file.size();
    if (bytes > most_file_bytes) throw BadImage(ImageFault::too_large, "has more than 256 MiB");
    std::vector<uint8_t> content(static_cast<size_t>(bytes));
    file.read(member ? picture.offset : 0, bytes, content.data());
    return content;
} catch (const Error& error) {
    throw BadImage(ImageFault::unreadable, error.what());
}

// Zero bytes separate the fields, because a path may hold anything else.
std::string text_of(const std::vector<Picture>& pictures) {
    std::string text;
    for (const Picture& p : pictures)
        for (const std::string& field : {p.name, p.path, std::to_string(p.offset), std::to_string(p.bytes)})
            (text += field) += '\0';
    return text;
}

std::vector<Picture> pictures_of(const std::string& text) {
    std::vector<Picture> pictures;
    size_t at = 0;
    const auto field = [&] {
        const size_t end = text.find('\0', at);
        std::string value = text.substr(at, end - at);
        at = end + 1;
        return value;
    };
    while (at < text.size()) {
        std::string name = field(), path = field();
        const int64_t offset = std::stoll(field()), bytes = std::stoll(field());
        pictures.push_back({std::move(name), std::move(path), offset, bytes});
    }
    return pictures;
}

}  // namespace convoy
