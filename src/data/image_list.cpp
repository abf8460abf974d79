#include "data/image_list.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/shorten.h"
#include "data/image_folder.h"
#include "data/image_formats.h"
#include "data/image_members.h"
#include "data/image_names.h"
#include "data/image_splits.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr size_t most_list_bytes = size_t(1) << 30;
constexpr size_t most_line_bytes = 64 << 10;  // a member's name in an archive has at most 4 KiB

/// A line "PATH LABEL", split at its last blank.
struct ListLine {
    std::string path, label;
};

std::vector<ListLine> read_list(const std::string& path) {
    const std::string advice = "a list has lines 'PATH LABEL'";
    std::vector<ListLine> lines;
    int64_t number = 0;
    for (const std::string& line : lines_of_input(path, most_list_bytes, advice)) {
        ++number;
        if (line.empty()) continue;
        if (line.size() > most_line_bytes)
            fail(Exit::bad_input, path + ":" + std::to_string(number) + ": is longer than 64 KiB; " + advice);
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

bool are_numbers(const std::vector<ListLine>& lines) {
    return std::all_of(lines.begin(), lines.end(), [](const ListLine& line) { return is_number(line.label); });
}

/// Adds the files of folder `root` that the list `shown` names.
void add_listed_files(const std::string& root, const std::vector<ListLine>& lines, const std::string& shown,
                      ImageList& to) {
    const int32_t source = to.add_source(root, root, shown);
    Outside outside(root);
    for (const ListLine& line : lines) {
        const fs::path path = fs::path(root) / line.path;
        const SourceFile file = look_at_source(path);
        if (outside.holds(path)) to.outside.add(line.path);
        to.images.push_back(
            {.label = line.label, .name = line.path, .source = source, .bytes = file.bytes, .changed = file.changed});
    }
}

/// True if `a` comes before `b` when both are read from their ends.
bool is_before_from_the_end(std::string_view a, std::string_view b) {
    return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

/// The members of archives, by the names that a list's lines may have for them.
struct MembersByName {
    using Names = std::multimap<std::string_view, const ListedImage*>;
    Names by_member, by_name;                ///< full name; class and file
    std::vector<const ListedImage*> by_end;  ///< in the order of the full names, read from their ends

    explicit MembersByName(const std::vector<ListedImage>& images) {
        for (const ListedImage& image : images) {
            if (image.member.empty()) continue;  // a separate file
            by_member.emplace(image.member, &image);
            by_name.emplace(image.name, &image);
            by_end.push_back(&image);
        }
        std::ranges::sort(by_end, is_before_from_the_end, &ListedImage::member);
    }

    /// Returns the members with this name, in their order.
    static std::vector<const ListedImage*> named(std::string_view name, const Names& names) {
        std::vector<const ListedImage*> found;
        const auto [begin, end] = names.equal_range(name);
        for (auto it = begin; it != end; ++it) found.push_back(it->second);
        return found;
    }

    /// Returns the members whose full name ends in `path`, or in whose full name `path` ends, as
    /// a/b.png ends in b.png. Uses binary search, because there may be millions.
    std::vector<const ListedImage*> ending_alike(const std::string& path) const {
        const std::string tail = "/" + path;
        std::vector<const ListedImage*> found;
        auto it = std::ranges::lower_bound(by_end, tail, is_before_from_the_end, &ListedImage::member);
        for (; it != by_end.end() && (*it)->member.ends_with(tail); ++it) found.push_back(*it);
        for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
            const auto whole = named(std::string_view(path).substr(slash + 1), by_member);
            found.insert(found.end(), whole.begin(), whole.end());
        }
        std::sort(found.begin(), found.end());  // they are elements of one vector
        return found;
    }
};

/// Returns the member that matches `path` best: by the member's full name, else by its class and
/// file. Otherwise, one of the two paths must be the end of the other.
const ListedImage& find_member(const std::string& path, const MembersByName& members, const std::string& list,
                               const ImageList& of) {
    const std::string normal = normal_name(path);
    std::vector<const ListedImage*> found = members.named(normal, members.by_member);
    if (found.empty()) found = members.named(normal, members.by_name);
    if (found.empty()) found = members.ending_alike(normal);
    if (found.empty()) fail(Exit::bad_input, list + ": " + shortened(path) + " is in none of the archives; check both");
    const auto place = [&](const ListedImage& image) {
        return of.sources[image.source].shown + ": " + shortened(image.member);
    };
    if (found.size() > 1)
        fail(Exit::bad_input, list + ": " + shortened(path) + " may be " + place(*found.end()[-2]) + ", or " +
                                  place(*found.back()) + "; write more of its path, or rename one of the two");
    return *found.back();
}

/// Keeps the members of archives that a list names, and gives them the labels of the list.
void take_listed_members(const std::vector<ListLine>& lines, const std::string& list, ImageList& of) {
    const MembersByName members(of.images);
    std::vector<ListedImage> taken;
    for (const ListLine& line : lines) {
        taken.push_back(find_member(line.path, members, list, of));
        taken.back().label = line.label;
    }
    std::set<std::pair<int32_t, int64_t>> named;
    for (const ListedImage& image : taken) named.insert({image.source, image.offset});
    for (const ListedImage& image : of.images)
        if (!named.contains({image.source, image.offset})) of.skip(Skipped::unnamed, image.name);
    of.images.swap(taken);
}

/// Adds the images of an archive. False if `path` is not an archive.
bool add_if_archive(const std::string& path, const ImageSource& from, ImageList& to) {
    const size_t before = to.images.size();
    FilePlace plain = path;
    if (!is_archive(plain, from.unpack_in, from.unpacked + "-" + std::to_string(to.sources.size()))) return false;
    const int64_t changed = look_at_source(path).changed;
    add_archive(plain, path, to);
    for (size_t i = before; i < to.images.size(); ++i) to.images[i].changed = changed;
    return true;
}

std::string folder_of(const std::string& path) {
    const fs::path parent = fs::path(path).parent_path();
    return parent.empty() ? "." : parent.string();
}

/// Calls `add` for each path, collects all bad inputs, and throws them as one Exit::bad_input.
void add_each(const std::vector<std::string>& paths, const std::function<void(const std::string&)>& add) {
    constexpr size_t most_told = 10;
    std::vector<std::string> problems;
    for (const std::string& path : paths) try {
            add(path);
        } catch (const Error& error) {
            if (error.code != Exit::bad_input) throw;
            problems.emplace_back(error.what());
        }
    if (problems.empty()) return;
    std::string all = problems[0];
    for (size_t i = 1; i < std::min(problems.size(), most_told); ++i) all += "; " + problems[i];
    if (problems.size() > most_told) all += "; and " + std::to_string(problems.size() - most_told) + " more";
    fail(Exit::bad_input, all);
}

/// Adds the images of one path of --from. True if it is an archive.
bool add_path(const std::string& path, const ImageSource& source, const std::vector<ListLine>& lines, ImageList& to) {
    std::error_code error;
    const bool folder = fs::is_directory(path, error);
    if (folder && lines.empty()) {
        Outside outside(path);
        add_each(add_folder(path, to), [&](const std::string& archive) {
            const size_t before = to.images.size();
            if (add_if_archive(archive, source, to) && outside.holds(archive))
                to.outside.add(fs::path(archive).filename(), int64_t(to.images.size() - before));
        });
    } else if (folder) {
        if (source.from.size() > 1)
            fail(Exit::usage, path + ": a list names files of one folder, or of archives; give one of these");
        add_listed_files(path, lines, source.list, to);
    } else if (add_if_archive(path, source, to)) {
        return true;
    } else if (is_image_name(path)) {
        fail(Exit::bad_input, path + ": is one file; give the folder of the images, an archive, or a list of them");
    } else if (lines.empty()) {
        const std::vector<ListLine> own = read_list(path);
        add_listed_files(folder_of(path), own, path, to);
        to.numbered = are_numbers(own);
        to.placed = false;
    } else {
        fail(Exit::bad_input, path + ": is neither a folder nor a tar archive; check it");
    }
    return false;
}

/// Throws Exit::bad_input if only some sources have .cls members, or if all labels are numbers and
/// one is negative.
void check_labels(const ImageList& list) {
    for (int32_t i = 0; !list.labelled.empty() && i < int32_t(list.sources.size()); ++i)
        if (std::find(list.labelled.begin(), list.labelled.end(), i) == list.labelled.end())
            fail(Exit::bad_input, list.given[i].path + ": has no labels (.cls), and " +
                                      list.given[list.labelled[0]].path + " has; convert them apart, or add them");
    if (list.placed) return;
    const auto negative = [](const ListedImage& image) {
        return image.label.starts_with('-') && is_number(image.label.substr(1));
    };
    const auto found = std::find_if(list.images.begin(), list.images.end(), negative);
    if (found != list.images.end() &&
        std::all_of(list.images.begin(), list.images.end(),
                    [&](const ListedImage& image) { return is_number(image.label) || negative(image); }))
        fail(Exit::bad_input, shortened(found->name) + ": has the label " + found->label +
                                  ", but numbers begin at 0; leave out images without a label");
}

ImageList list_one_by_one(const ImageSource& source) {
    ImageList list;
    const std::vector<ListLine> lines = source.list.empty() ? std::vector<ListLine>() : read_list(source.list);
    bool archives = false;
    add_each(source.from, [&](const std::string& path) { archives = add_path(path, source, lines, list) || archives; });
    if (lines.empty()) {
        check_labels(list);
        if (list.placed) skip_loose_members(list);
        return list;
    }
    list.placed = false;
    if (archives) take_listed_members(lines, source.list, list);
    list.numbered = are_numbers(lines);
    return list;
}

bool same_label(const std::string& a, const std::string& b, bool numbered) {
    return numbered ? number_of(a) == number_of(b) : a == b;
}

/// If several lines or sources name a file, keeps one entry. Throws Exit::bad_input if their labels
/// differ.
void keep_one_of_each(ImageList& list) {
    const SourceIds ids(list.origins);
    std::unordered_map<std::string, size_t> places;
    places.reserve(list.images.size());
    std::vector<ListedImage> kept;
    kept.reserve(list.images.size());
    for (ListedImage& image : list.images) {
        const auto [place, is_new] = places.try_emplace(ids.key(image), kept.size());
        if (is_new) {
            kept.push_back(std::move(image));
            continue;
        }
        const std::string& label = kept[place->second].label;
        if (!same_label(label, image.label, list.numbered))
            fail(Exit::bad_input, list.given[image.source].path + ": " + shortened(image.name) + " has two labels, '" +
                                      shortened(label) + "' and '" + shortened(image.label) +
                                      "'; leave one of them out");
        list.skip(Skipped::repeated, image.name);
        --list.given[image.source].images;
    }
    list.images.swap(kept);
}

/// Counts the images of each source. Throws Exit::bad_input if a source has none, unless a list
/// chose the images.
void count_given(ImageList& list, bool chosen) {
    for (const ListedImage& image : list.images) ++list.given[image.source].images;
    std::vector<std::string> empty;
    for (const GivenImages& source : list.given)
        if (source.images == 0) empty.push_back(source.path);
    add_each(empty, [&](const std::string& path) {
        if (!chosen) fail(Exit::bad_input, path + ": holds no " + read_endings() + "; check it, or leave it out");
        list.skip(Skipped::unlisted, path);
    });
}

}  // namespace

void SkippedCount::add(const std::string& name, int64_t times) {
    count += times;
    if (times > 0 && examples.size() < most_examples) examples.push_back(shortened(name));
}

void SkippedCount::add(const SkippedCount& other) {
    count += other.count;
    for (const std::string& name : other.examples)
        if (examples.size() < most_examples) examples.push_back(name);
}

int32_t ImageList::add_source(const FilePlace& place, const std::string& origin, const std::string& shown) {
    sources.push_back(place);
    origins.push_back(origin);
    given.push_back({shown});
    return int32_t(sources.size() - 1);
}

void ImageList::sort() {
    std::sort(images.begin(), images.end(), [&](const ListedImage& a, const ListedImage& b) {
        const auto order = numbered ? number_of(a.label) <=> number_of(b.label) : a.label <=> b.label;
        if (order != 0) return order < 0;
        return std::tie(a.name, a.source, a.offset) < std::tie(b.name, b.source, b.offset);
    });
}

ImageList list_images(const ImageSource& source) {
    ImageList list = list_one_by_one(source);
    // "7" and "07" are one class. If any label of a source is a name, all labels count as names.
    list.numbered = list.numbered && std::all_of(list.images.begin(), list.images.end(),
                                                 [](const ListedImage& image) { return is_number(image.label); });
    count_given(list, !source.list.empty());
    keep_one_of_each(list);
    if (list.images.empty()) fail(Exit::bad_input, source.from.at(0) + ": holds no " + read_endings() + "; check it");
    if (int64_t(list.images.size()) > INT32_MAX) fail(Exit::bad_input, "more than 2147483647 images; split them");
    list.sort();
    return list;
}

}  // namespace convoy
