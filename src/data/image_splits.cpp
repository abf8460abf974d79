#include "data/image_splits.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <unordered_set>

#include "data/image_names.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr const char* train_names[] = {"train", "training"};
// In the order in which they are preferred: ImageNet's "test" has no labels.
constexpr const char* test_names[] = {"val", "valid", "validation", "test", "testing"};

/// The folders above an image, from its source on.
std::vector<std::string> folders_above(const ListedImage& image) {
    std::vector<std::string> folders;
    const fs::path path = fs::path(image.member.empty() ? image.name : image.member).parent_path();
    for (const fs::path& part : path) folders.push_back(part);
    return folders;
}

/// How many folders all images have in common, from the source on.
size_t common_depth(const std::vector<ListedImage>& images) {
    const std::vector<std::string> first = folders_above(images.at(0));
    size_t depth = first.size();
    for (const ListedImage& image : images) {
        const std::vector<std::string> folders = folders_above(image);
        const auto [end, other] =
            std::mismatch(first.begin(), first.begin() + ptrdiff_t(depth), folders.begin(), folders.end());
        depth = size_t(end - first.begin());
    }
    return depth;
}

/// The first of `names` that is among the folders, in any case of letters; empty if none is.
template <size_t n> std::string split_among(const std::vector<std::string>& folders, const char* const (&names)[n]) {
    for (const char* name : names)
        for (const std::string& folder : folders)
            if (lower(folder) == name) return folder;
    return "";
}

/// The folders at `depth` that hold folders with images.
std::vector<std::string> folders_at(size_t depth, const std::vector<ListedImage>& images) {
    std::set<std::string> names;
    for (const ListedImage& image : images)
        if (const std::vector<std::string> folders = folders_above(image); folders.size() >= depth + 2)
            names.insert(folders[depth]);
    return {names.begin(), names.end()};
}

}  // namespace

SourceIds::SourceIds(const std::vector<std::string>& sources) {
    for (const std::string& path : sources) {
        struct stat about{};
        const bool known = ::stat(path.c_str(), &about) == 0;
        ids_.push_back(known ? std::to_string(about.st_dev) + ":" + std::to_string(about.st_ino) : path);
    }
}

std::string SourceIds::key(const ListedImage& image) const {
    const bool member = image.offset >= 0;
    return ids_[size_t(image.source)] + "/" +
           (member ? std::to_string(image.offset) : fs::path(image.name).lexically_normal().string());
}

std::optional<ImageList> take_test_images(ImageList& train) {
    if (!train.placed || train.sources.size() != 1) return std::nullopt;
    const size_t depth = common_depth(train.images);
    const std::vector<std::string> folders = folders_at(depth, train.images);
    const std::string train_name = split_among(folders, train_names), test_name = split_among(folders, test_names);
    if (train_name.empty() || test_name.empty()) return std::nullopt;
    ImageList test;
    test.sources = train.sources;
    test.given = train.given;
    std::vector<ListedImage> images = std::move(train.images);
    train.images.clear();
    for (ListedImage& image : images) {
        const std::vector<std::string> above = folders_above(image);
        if (above.size() < depth + 2) {
            train.skip(Skipped::unclassed, image.name);
            continue;
        }
        if (image.member.empty()) image.label = above[depth + 1];
        if (above[depth] == train_name)
            train.images.push_back(std::move(image));
        else if (above[depth] == test_name)
            test.images.push_back(std::move(image));
        else
            train.skip(Skipped::other_split, image.name);
    }
    train.given[0].path += ", " + train_name;
    train.given[0].images = int64_t(train.images.size());
    test.given[0].path += ", " + test_name;
    test.given[0].images = int64_t(test.images.size());
    train.sort();
    test.sort();
    return test;
}

SkippedCount count_in_both(const ImageList& train, const ImageList& test) {
    const SourceIds train_ids(train.sources), test_ids(test.sources);
    std::unordered_set<std::string> keys;
    for (const ListedImage& image : train.images) keys.insert(train_ids.key(image));
    SkippedCount both;
    for (const ListedImage& image : test.images)
        if (keys.contains(test_ids.key(image))) both.add(image.name);
    return both;
}

}  // namespace convoy
