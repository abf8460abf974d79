#include "data/image_list.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "base/input_file.h"
#include "data/image_members.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr size_t most_list_bytes = size_t(1) << 30;
constexpr int64_t most_classes = 1'000'000;

/// A line "PATH LABEL", split at its last blank.
struct ListLine {
    std::string path, label;
};

std::vector<ListLine> read_list(const std::string& path) {
    const std::string advice = "a list has lines 'PATH LABEL'";
    size_of_input(path, advice);
    std::istringstream text(text_of_input(path, most_list_bytes, advice));
    std::vector<ListLine> lines;
    int64_t number = 0;
    for (std::string line; std::getline(text, line);) {
        ++number;
        line.erase(line.find_last_not_of(" \t\r") + 1);
        if (line.empty()) continue;
        if (line.find('\0') != std::string::npos)
            fail(Exit::bad_input, path + ":" + std::to_string(number) + ": holds a zero byte; " + advice);
        const size_t blank = line.find_last_of(" \t");
        const size_t end = blank == std::string::npos ? blank : line.find_last_not_of(" \t", blank);
        if (end == std::string::npos)
            fail(Exit::bad_input, path + ":" + std::to_string(number) + ": '" + line.substr(0, 80) +
                                      "' is not a path and a label; " + advice);
        lines.push_back({line.substr(0, end + 1), line.substr(blank + 1)});
    }
    if (lines.empty()) fail(Exit::bad_input, path + ": is empty; " + advice);
    return lines;
}

bool is_number(const std::string& text) {
    return !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
}

void add_file(const std::string& root, const std::string& name, const std::string& label, int32_t source,
              ImageList& to) {
    const SourceFile file = look_at_source(fs::path(root) / name);
    to.images.push_back({.label = label, .name = name, .source = source, .bytes = file.bytes, .changed = file.changed});
}

/// Files of folder `root`, as a list names them.
void add_listed_files(const std::string& root, const std::vector<ListLine>& lines, ImageList& to) {
    const auto source = int32_t(to.sources.size());
    to.sources.push_back(root);
    for (const ListLine& line : lines) add_file(root, line.path, line.label, source, to);
}

/// Whether `path` is some folder's `tail`.
bool ends_path(const std::string& tail, const std::string& path) {
    return path.size() > tail.size() && path[path.size() - tail.size() - 1] == '/' && path.ends_with(tail);
}

/// How well a line's path names a member: 3, the whole of it; 2, its class and file; 1, one is the
/// other's end; 0, not at all.
int match_of(const std::string& path, const ListedImage& image) {
    if (path == image.member) return 3;
    if (path == image.name) return 2;
    return ends_path(path, image.member) || ends_path(image.member, path);
}

/// Members by the names of their files.
using MembersByFile = std::multimap<std::string, const ListedImage*>;

/// The member that `path` names best.
const ListedImage& find_member(const std::string& path, const MembersByFile& members, const std::string& list,
                               const ImageList& of) {
    const std::string normal = normal_name(path);
    const ListedImage *found = nullptr, *other = nullptr;
    int best = 0;
    const auto [begin, end] = members.equal_range(fs::path(normal).filename());
    for (auto it = begin; it != end; ++it) {
        const int match = match_of(normal, *it->second);
        if (match == 0 || match < best) continue;
        other = match == best ? found : nullptr;
        found = it->second;
        best = match;
    }
    if (!found) fail(Exit::bad_input, list + ": " + path + " is in none of the archives; check both");
    const auto place = [&](const ListedImage& image) { return of.sources[size_t(image.source)] + ": " + image.member; };
    if (other)
        fail(Exit::bad_input, list + ": " + path + " may be " + place(*other) + ", or " + place(*found) +
                                  "; write more of its path, or rename one of the two");
    return *found;
}

/// Members of archives, as a list names them.
void take_listed_members(const std::vector<ListLine>& lines, const std::string& list, ImageList& of) {
    MembersByFile members;
    for (const ListedImage& image : of.images) members.emplace(fs::path(image.member).filename(), &image);
    std::vector<ListedImage> taken;
    for (const ListLine& line : lines) {
        taken.push_back(find_member(line.path, members, list, of));
        taken.back().label = line.label;
    }
    of.images.swap(taken);
}

/// Every image below `root`/`label`.
void add_class_folder(const std::string& root, const std::string& label, int32_t source, ImageList& to) {
    const size_t before = to.images.size();
    std::error_code error;
    fs::recursive_directory_iterator entries(root + "/" + label, fs::directory_options::follow_directory_symlink,
                                             error);
    for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
        if (entries->is_directory(error)) continue;
        const std::string name = entries->path().string().substr(root.size() + 1);
        if (is_image_name(name))
            add_file(root, name, label, source, to);
        else
            ++to.other_files;
    }
    if (error) fail(Exit::bad_input, root + "/" + label + ": " + error.message() + "; check its permissions");
    if (to.images.size() == before)
        fail(Exit::bad_input, root + "/" + label + ": holds no .jpg, .jpeg or .png; remove the folder, or fill it");
}

/// False if `path` is no archive.
bool add_if_archive(const std::string& path, const std::string& unpacked, ImageList& to) {
    const size_t before = to.images.size();
    std::string plain = path;
    if (!is_archive(plain, unpacked, to)) return false;
    const int64_t changed = look_at_source(path).changed;
    add_archive(plain, to);
    for (size_t i = before; i < to.images.size(); ++i) to.images[i].changed = changed;
    return true;
}

void add_folder(const std::string& root, const std::string& unpacked, ImageList& to) {
    std::vector<std::string> classes, archives;
    std::error_code error;
    for (fs::directory_iterator entries(root, error); !error && entries != fs::directory_iterator();
         entries.increment(error)) {
        const std::string name = entries->path().filename();
        if (entries->is_directory(error))
            classes.push_back(name);
        else if (name.ends_with(".tar") || name.ends_with(".tar.gz") || name.ends_with(".tgz"))
            archives.push_back(name);
        else
            ++to.other_files;
    }
    if (error) fail(Exit::bad_input, root + ": " + error.message() + "; check --from");
    std::sort(classes.begin(), classes.end());
    std::sort(archives.begin(), archives.end());
    if (classes.empty() && archives.empty())
        fail(Exit::bad_input,
             root + ": holds neither a folder a class nor tar archives; name the images' classes in a list");
    if (classes.empty()) {
        for (const std::string& archive : archives) add_if_archive(root + "/" + archive, unpacked, to);
        return;
    }
    const auto source = int32_t(to.sources.size());
    to.sources.push_back(root);
    to.other_files += int64_t(archives.size());
    for (const std::string& label : classes) add_class_folder(root, label, source, to);
}

std::string folder_of(const std::string& path) {
    const fs::path parent = fs::path(path).parent_path();
    return parent.empty() ? "." : parent.string();
}

ImageList list_one_by_one(const ImageSource& source) {
    ImageList list;
    const std::vector<ListLine> lines = source.list.empty() ? std::vector<ListLine>() : read_list(source.list);
    std::error_code error;
    bool archives = false;
    for (const std::string& path : source.from) {
        const bool folder = fs::is_directory(path, error);
        if (folder && !lines.empty()) {
            if (source.from.size() > 1)
                fail(Exit::usage, path + ": a list names files of one folder, or of archives; give one of these");
            add_listed_files(path, lines, list);
        } else if (folder) {
            add_folder(path, source.unpacked, list);
        } else if (add_if_archive(path, source.unpacked, list)) {
            archives = true;
        } else if (lines.empty()) {
            const std::vector<ListLine> own = read_list(path);
            add_listed_files(folder_of(path), own, list);
            list.numbered =
                std::all_of(own.begin(), own.end(), [](const ListLine& line) { return is_number(line.label); });
        } else {
            fail(Exit::bad_input, path + ": is neither a folder nor a tar archive; check it");
        }
    }
    if (lines.empty()) return list;
    if (archives) take_listed_members(lines, source.list, list);
    list.numbered = std::all_of(lines.begin(), lines.end(), [](const ListLine& line) { return is_number(line.label); });
    return list;
}

int64_t number_of(const std::string& label) {
    int64_t value = -1;
    std::from_chars(label.data(), label.data() + label.size(), value);
    return value;
}

/// Lines "ID NAME", in their order.
ClassTable read_classes(const std::string& file) {
    const std::string advice = "it takes lines 'n01440764 tench'";
    size_of_input(file, advice);
    std::istringstream text(text_of_input(file, 64 << 20, advice));
    ClassTable table;
    std::set<std::string> seen;
    for (std::string line; std::getline(text, line);) {
        line.erase(line.find_last_not_of(" \t\r") + 1);
        if (line.empty()) continue;
        const size_t blank = line.find_first_of(" \t");
        const std::string id = line.substr(0, blank);
        if (!seen.insert(id).second) fail(Exit::bad_input, file + ": names " + id + " twice; " + advice);
        table.ids.push_back(id);
        table.names.push_back(blank == std::string::npos ? id : line.substr(line.find_first_not_of(" \t", blank)));
    }
    if (table.ids.empty()) fail(Exit::bad_input, file + ": is empty; " + advice);
    return table;
}

std::string first_of(const ListedImage& image) { return "'" + image.label + "' (of " + image.name + ")"; }

void set_numbers(ImageList& list, int64_t classes) {
    for (ListedImage& image : list.images) {
        const int64_t number = number_of(image.label);
        if (number < 0 || number >= classes)
            fail(Exit::bad_input, "label " + first_of(image) + ": allowed is 0 to " + std::to_string(classes - 1) +
                                      ", the number of classes less one; check the labels, or --classes");
        image.class_index = int32_t(number);
    }
}

}  // namespace

ImageList list_images(const ImageSource& source) {
    ImageList list = list_one_by_one(source);
    if (list.images.empty()) fail(Exit::bad_input, source.from.at(0) + ": holds no .jpg, .jpeg or .png; check it");
    if (int64_t(list.images.size()) > INT32_MAX) fail(Exit::bad_input, "more than 2147483647 images; split them");
    // "7" and "07" are one class; a single name among the labels of all sources makes all of them
    // names
    list.numbered = list.numbered && std::all_of(list.images.begin(), list.images.end(),
                                                 [](const ListedImage& image) { return is_number(image.label); });
    std::sort(list.images.begin(), list.images.end(), [&](const ListedImage& a, const ListedImage& b) {
        const auto order = list.numbered ? number_of(a.label) <=> number_of(b.label) : a.label <=> b.label;
        if (order != 0) return order < 0;
        return std::tie(a.name, a.source, a.offset) < std::tie(b.name, b.source, b.offset);
    });
    return list;
}

ClassTable name_classes(ImageList& train, const std::string& file) {
    const ClassTable named = file.empty() ? ClassTable() : read_classes(file);
    if (train.numbered) {
        int64_t most = 0;
        for (const ListedImage& image : train.images) most = std::max(most, number_of(image.label));
        ClassTable table = named;
        table.numbered = true;
        for (int64_t i = 0; file.empty() && i <= std::min(most, most_classes); ++i)
            table.ids.push_back(std::to_string(i));
        if (file.empty()) table.names = table.ids;
        set_numbers(train, int64_t(table.ids.size()));
        return table;
    }
    std::map<std::string, std::string> names;
    for (size_t i = 0; i < named.ids.size(); ++i) names[named.ids[i]] = named.names[i];
    ClassTable table;
    for (ListedImage& image : train.images) {  // sorted by label
        if (table.ids.empty() || table.ids.back() != image.label) {
            if (!file.empty() && !names.contains(image.label))
                fail(Exit::bad_input, file + ": has no line for class " + first_of(image) + "; add it");
            table.ids.push_back(image.label);
            table.names.push_back(file.empty() ? image.label : names[image.label]);
        }
        image.class_index = int32_t(table.ids.size() - 1);
    }
    if (int64_t(table.ids.size()) > most_classes)
        fail(Exit::bad_input, "more than " + std::to_string(most_classes) + " classes; is each folder one?");
    return table;
}

void find_classes(ImageList& test, const ClassTable& classes) {
    const std::set<std::string> ids(classes.ids.begin(), classes.ids.end());
    const bool are_ids = std::any_of(test.images.begin(), test.images.end(),
                                     [&](const ListedImage& image) { return ids.contains(image.label); });
    if (test.numbered && (classes.numbered || !are_ids)) return set_numbers(test, int64_t(classes.ids.size()));
    std::map<std::string, int32_t> index;
    for (size_t i = classes.names.size(); i-- > 0;) index[classes.names[i]] = int32_t(i);
    for (size_t i = 0; i < classes.ids.size(); ++i) index[classes.ids[i]] = int32_t(i);
    for (ListedImage& image : test.images) {
        const auto found = index.find(image.label);
        if (found == index.end())
            fail(Exit::bad_input,
                 "the test images have a class " + first_of(image) + ", and the training has none of it");
        image.class_index = found->second;
    }
}

}  // namespace convoy
