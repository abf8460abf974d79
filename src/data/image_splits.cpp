#include "data/image_splits.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <unordered_set>

#include "base/text.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

using Names = std::vector<std::string>;

const Names train_words = {"train", "training"};
// Names of test splits, in the order of preference. "test" comes late, because ImageNet's has no
// labels.
const Names test_words = {"val", "valid", "validation", "dev", "test", "testing"};

bool is_among(const std::string& word, const Names& words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// Returns the letters that a name begins with, in lower case: "train" for "Train-0000.tar".
std::string word_of(const std::string& name) {
    const std::string text = lower_case(name);
    return text.substr(0, std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), text.size()));
}

/// Returns the name whose word_of() is the earliest in `words`; empty if no name has one.
std::string first_among(const std::set<std::string>& names, const Names& words) {
    for (const std::string& word : words)
        for (const std::string& name : names)
            if (word_of(name) == word) return name;
    return "";
}

/// Returns the folders of an image's path, below its source.
Names folders_above(const ListedImage& image) {
    Names folders;
    const fs::path path = fs::path(image.member.empty() ? image.name : image.member).parent_path();
    for (const fs::path& part : path) folders.push_back(part);
    return folders;
}

/// The common folders of the images of one source.
struct Layout {
    size_t depth = SIZE_MAX;          ///< number of folders that all images have in common
    Names common{};                   ///< [depth], these folders
    std::set<std::string> folders{};  ///< folders in the last common one that have subfolders with images
    bool has_deeper = false;          ///< some images do not lie directly in the last common folder
};

std::map<int32_t, Layout> layouts_of(const std::vector<ListedImage>& images) {
    std::map<int32_t, Layout> layouts;
    for (const ListedImage& image : images) {
        Layout& layout = layouts[image.source];
        const Names folders = folders_above(image);
        if (layout.depth == SIZE_MAX) layout.common = folders;
        const auto end =
            std::mismatch(layout.common.begin(), layout.common.end(), folders.begin(), folders.end()).first;
        layout.common.erase(end, layout.common.end());
        layout.depth = layout.common.size();
    }
    for (const ListedImage& image : images) {
        Layout& layout = layouts[image.source];
        const Names folders = folders_above(image);
        layout.has_deeper = layout.has_deeper || folders.size() > layout.depth;
        if (folders.size() >= layout.depth + 2) layout.folders.insert(folders[layout.depth]);
    }
    return layouts;
}

enum class Part { train, test, third, loose };  ///< third: another split; loose: in no class folder

/// The names of the folders or archives of each split.
struct SplitNames {
    std::string train, test;
    bool found() const { return !train.empty() && !test.empty(); }
    Part part_of(const std::string& name) const {
        if (name == test || word_of(name) == word_of(test)) return Part::test;
        return name == train || word_of(name) == word_of(train) ? Part::train : Part::third;
    }
};

SplitNames split_names_of(const std::set<std::string>& names) {
    return {first_among(names, train_words), first_among(names, test_words)};
}

std::string name_of_source(const std::string& path) {
    const fs::path normal = fs::path(path).lexically_normal();
    return normal.has_filename() ? normal.filename() : normal.parent_path().filename();
}

/// Assigns each image to a split.
class Splitter {
public:
    explicit Splitter(const ImageList& list) : layouts_(layouts_of(list.images)) {
        std::set<std::string> names;
        for (const GivenImages& source : list.given) names_.push_back(name_of_source(source.path));
        names.insert(names_.begin(), names_.end());
        by_source_ = split_names_of(names);
        for (const auto& [source, layout] : layouts_)
            if (const SplitNames folders = split_names_of(layout.folders); folders.found())
                by_folder_[source] = folders;
    }
    bool found() const { return by_source_.found() || !by_folder_.empty(); }
    /// Returns the split of an image. If a folder names the split, sets the image's label to the
    /// name of the folder below.
    Part deal(ListedImage& image) const {
        if (by_source_.found()) {
            const std::string& name = names_[image.source];
            const bool known = is_split_name(name);
            return known ? by_source_.part_of(name) : Part::train;
        }
        const auto names = by_folder_.find(image.source);
        if (names == by_folder_.end()) return Part::train;
        const size_t depth = layouts_.at(image.source).depth;
        const Names above = folders_above(image);
        if (above.size() < depth + 2) return Part::loose;
        image.label = above[depth + 1];
        return names->second.part_of(above[depth]);
    }

private:
    std::map<int32_t, Layout> layouts_;
    Names names_;  // [sources]
    SplitNames by_source_;
    std::map<int32_t, SplitNames> by_folder_;
};

/// Counts each source's images, removes sources that have none, and adds the split to their paths.
void count_split(ImageList& list, const std::string& split) {
    for (GivenImages& source : list.given) source.images = 0;
    for (const ListedImage& image : list.images) ++list.given[image.source].images;
    std::erase_if(list.given, [](const GivenImages& source) { return source.images == 0; });
    for (GivenImages& source : list.given) source.path += ", " + split;
    list.sort();
}

}  // namespace

SourceIds::SourceIds(const std::vector<std::string>& sources) {
    for (const std::string& path : sources) {
        std::error_code error;
        const fs::path real = fs::canonical(path, error);
        paths_.push_back(error ? path : real.string());
    }
}

std::string SourceIds::key(const ListedImage& image) const {
    const fs::path source = paths_[image.source];
    if (image.offset >= 0) return source.string() + '\0' + std::to_string(image.offset);
    return (source / image.name).lexically_normal();
}

bool is_split_name(const std::string& name) {
    return is_among(word_of(name), train_words) || is_among(word_of(name), test_words);
}

void skip_loose_members(ImageList& list) {
    const std::map<int32_t, Layout> layouts = layouts_of(list.images);
    std::erase_if(list.images, [&](const ListedImage& image) {
        const Layout& layout = layouts.at(image.source);
        const bool loose = image.offset >= 0 && layout.has_deeper && folders_above(image).size() == layout.depth;
        if (loose) list.skip(Skipped::unclassed, image.member);
        return loose;
    });
}

std::optional<ImageList> take_test_images(ImageList& train) {
    if (!train.placed) return std::nullopt;
    const Splitter splitter(train);
    if (!splitter.found()) return std::nullopt;
    ImageList test;
    test.sources = train.sources;
    test.origins = train.origins;
    test.given = train.given;
    std::vector<ListedImage> images = std::move(train.images);
    train.images.clear();
    for (ListedImage& image : images) switch (splitter.deal(image)) {
            case Part::train: train.images.push_back(std::move(image)); break;
            case Part::test: test.images.push_back(std::move(image)); break;
            case Part::third: train.skip(Skipped::other_split, image.name); break;
            case Part::loose: train.skip(Skipped::unclassed, image.name); break;
        }
    count_split(train, "training");
    count_split(test, "test");
    return test;
}

SkippedCount count_in_both(const ImageList& train, const ImageList& test) {
    const SourceIds train_ids(train.origins), test_ids(test.origins);
    std::unordered_set<std::string> keys;
    for (const ListedImage& image : train.images) keys.insert(train_ids.key(image));
    SkippedCount both;
    for (const ListedImage& image : test.images)
        if (keys.contains(test_ids.key(image))) both.add(image.name);
    return both;
}

}  // namespace convoy
