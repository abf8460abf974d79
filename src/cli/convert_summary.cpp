#include "cli/convert_summary.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "data/image_splits.h"

namespace convoy {
namespace {

constexpr size_t most_names = 10, most_sources = 20;

std::string made_of(const ImageRules& rules) {
    if (rules.layout == ImageLayout::jpeg) return "files as they are";
    return rules.layout == ImageLayout::raw ? "pixels, " + rules.resize.text() : rules.resize.text();
}

/// Formats counts as "12 x, 3 y", leaving out those that are zero.
template <size_t n> std::string listed(const std::array<int64_t, n>& counts, const std::array<const char*, n>& names) {
    std::string all;
    for (size_t i = 0; i < n; ++i)
        if (counts[i] > 0) all += (all.empty() ? "" : ", ") + counted(counts[i], names[i], "");
    return all;
}

/// Prints the images per source. If there are more than 20 sources: the first ten, and those with
/// the fewest and the most images.
void print_given(Terminal& out, const std::vector<GivenImages>& given) {
    const size_t shown = given.size() > most_sources ? most_sources / 2 : given.size();
    for (size_t i = 0; i < shown; ++i) out.line("  from " + given[i].path + ": " + counted(given[i].images, "image"));
    if (shown == given.size()) return;
    const auto [least, most] = std::minmax_element(given.begin(), given.end(),
                                                   [](const auto& a, const auto& b) { return a.images < b.images; });
    out.line(formatted("  … and from %zu more; the fewest are %lld from %s, the most %lld from %s",
                       given.size() - shown, (long long)least->images, least->path.c_str(), (long long)most->images,
                       most->path.c_str()));
}

void print_notes(Terminal& out, const ImageTally& all) {
    constexpr std::array<const char*, image_notes> names = {"grey",
                                                            "CMYK",
                                                            "turned by EXIF",
                                                            "of 16 bits",
                                                            "with alpha",
                                                            "PNG",
                                                            "with bytes that mean nothing",
                                                            "with odd headers",
                                                            "WebP",
                                                            "GIF",
                                                            "BMP",
                                                            "TIFF",
                                                            "of several pictures, of which the first is taken"};
    if (const std::string noted = listed(all.noted, names); !noted.empty()) out.line("  among them: " + noted);
}

/// Returns " (a, b, …)".
std::string named(const SkippedCount& of) {
    std::string names;
    for (const std::string& name : of.examples) names += (names.empty() ? " (" : ", ") + name;
    return names + (of.count > int64_t(of.examples.size()) ? ", …)" : ")");
}

/// Returns ": 8 HEIC, 4 AVIF; convert them to JPEG or PNG first".
std::string advice_on(const std::map<std::string, int64_t>& formats) {
    std::string all;  // empty for pictures in archives, because their bytes are not read
    for (const auto& [format, count] : formats) all += (all.empty() ? ": " : ", ") + counted(count, format, "");
    return all + "; convert them to JPEG or PNG first";
}

void print_skipped(Terminal& out, const ListSummary& found) {
    // [Skipped]: the texts for one file, and for several
    constexpr std::array<std::pair<const char*, const char*>, skipped_kinds> texts = {{
        {"file that is not named as an image", "files that are not named as images"},
        {"picture of a format that is not read", "pictures of formats that are not read"},
        {"link in an archive, which is not followed", "links in archives, which are not followed"},
        {"hidden or system file or folder", "hidden or system files or folders"},
        {"link that leads nowhere, or where you may not go", "links that lead nowhere, or where you may not go"},
        {"link to a folder that is read already", "links to folders that are read already"},
        {"pipe or device that is named as an image", "pipes or devices that are named as images"},
        {"member that a later one of the same name replaces", "members that later ones of the same name replace"},
        {"image that was named before, with the same label", "images that were named before, with the same label"},
        {"archive beside folders of images; --from reads it", "archives beside folders of images; --from reads them"},
        {"image beside the folders, of no class", "images beside the folders, of no class"},
        {"folder without an image", "folders without an image"},
        {"image of a third split", "images of a third split"},
        {"archive of which the list names no image", "archives of which the list names no image"},
        {"image that the list does not name", "images that the list does not name"},
    }};
    for (size_t i = 0; i < skipped_kinds; ++i) {
        const SkippedCount& skipped = found.skipped[i];
        if (skipped.count == 0) continue;
        out.line("  passed over: " + grouped(size_t(skipped.count)) + " " +
                 (skipped.count == 1 ? texts[i].first : texts[i].second) + named(skipped) +
                 (Skipped(i) == Skipped::picture ? advice_on(found.formats) : ""));
    }
}

/// Returns a hint if classes have the names of splits, because they probably are splits.
std::string split_hint(const std::vector<std::string>& class_names) {
    std::string names;
    for (const std::string& name : class_names)
        if (is_split_name(name)) names += (names.empty() ? "" : ", ") + name;
    return names.empty() ? ""
                         : "classes named as splits are: " + names +
                               "; if they are splits, give their folders to --from and --val";
}

void print_left_out(Terminal& out, const ImageTally& all) {
    constexpr std::array<const char*, image_faults> names = {
        "damaged", "truncated", "empty", "of another format", "too large", "too narrow", "unreadable"};
    if (all.left_out() == 0) return;
    out.line("  left out: " + counted(all.left_out(), "image") + " (" + listed(all.faults, names) + "), as");
    for (const std::string& example : all.examples) out.line("    " + example);
}

}  // namespace

std::string counted(int64_t count, const std::string& what, const char* several) {
    return grouped(size_t(count)) + " " + what + (count == 1 ? "" : several);
}

ListSummary summary_of(const ImageList& train, const ImageList& test) {
    ListSummary summary;
    summary.given = train.given;
    summary.given.insert(summary.given.end(), test.given.begin(), test.given.end());
    for (size_t i = 0; i < skipped_kinds; ++i) {
        summary.skipped[i] = train.skipped[i];
        summary.skipped[i].add(test.skipped[i]);
    }
    summary.formats = train.formats;
    for (const auto& [format, count] : test.formats) summary.formats[format] += count;
    summary.outside = train.outside;
    summary.outside.add(test.outside);
    summary.in_both = count_in_both(train, test);
    summary.own_test = !test.images.empty();
    return summary;
}

void check_nothing_is_lost(const ListSummary& found) {
    const SkippedCount& dead = found.skipped[size_t(Skipped::dead_link)];
    if (dead.count > 0)
        fail(Exit::bad_input, dead.examples.at(0) +
                                  ": is a link whose target does not exist or may not be read; repair or remove it, "
                                  "or omit --strict to pass over such links");
}

std::string classes_without_images(const std::string& split, const std::vector<std::string>& class_names,
                                   const std::vector<int64_t>& counts) {
    std::string names;
    size_t missing = 0;
    for (size_t i = 0; i < class_names.size(); ++i) {
        if (i < counts.size() && counts[i] > 0) continue;
        if (++missing <= most_names) names += (missing > 1 ? ", " : "") + class_names[i];
    }
    if (missing == 0) return "";
    if (missing > most_names) names += ", …";
    return formatted("%zu of %zu classes without a %s image: ", missing, class_names.size(), split.c_str()) + names;
}

std::string images_by_class(const std::vector<std::string>& class_names, const std::vector<int64_t>& train,
                            const std::vector<int64_t>& test) {
    const auto count_in = [](const std::vector<int64_t>& counts, size_t i) {
        return i < counts.size() ? counts[i] : int64_t(0);
    };
    const auto of_class = [&](size_t i) {
        return class_names[i] + formatted(" %lld + %lld", (long long)count_in(train, i), (long long)count_in(test, i));
    };
    std::vector<size_t> order(class_names.size());
    std::iota(order.begin(), order.end(), size_t(0));
    if (order.size() > most_names)
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return count_in(train, a) + count_in(test, a) < count_in(train, b) + count_in(test, b);
        });
    std::string text;
    const size_t ends = 3;
    for (size_t i = 0; i < order.size(); ++i) {
        if (order.size() > most_names && i >= ends && i + ends < order.size()) continue;
        text += (i == 0 ? "" : i == order.size() - ends && order.size() > most_names ? ", …, " : ", ");
        text += of_class(order[i]);
    }
    return "images by class, train + test" + std::string(order.size() > most_names ? ", fewest first: " : ": ") + text;
}

void print_summary(Terminal& out, const ImageOptions& o, const ListSummary& found,
                   const std::vector<std::string>& class_names, const std::vector<ShardRecord>& records, double seconds,
                   int64_t converted) {
    ImageTally train, test, all;
    for (const ShardRecord& record : records) (record.split == "train" ? train : test).add(record.tally);
    all.add(found.unreadable);
    all.add(train);
    all.add(test);
    out.line(o.to + ": " + counted(train.images, "train image") + ", " + counted(test.images, "test image") + ", " +
             made_of(o.rules) + ", " + counted(int64_t(class_names.size()), "class", "es") + ", " +
             counted(int64_t(records.size()), "shard") +
             formatted(", %.1f s, %.0f images/s", seconds, double(converted) / std::max(seconds, 1e-3)));
    print_given(out, found.given);
    if (!found.own_test)
        out.line(formatted("  the test split is %.4g %% of each class, drawn by --seed", 100 * o.sharding.test_share));
    print_notes(out, all);
    out.line("  " + images_by_class(class_names, train.classes, test.classes));
    if (class_names.size() == 1)
        out.warning("all images are of one class, '" + class_names[0] +
                    "': a model learns nothing from them; give a folder that has a folder for each class");
    for (const auto& [split, tally] : {std::pair("train", &train), {"test", &test}})
        if (const std::string line = classes_without_images(split, class_names, tally->classes); !line.empty())
            out.line("  " + line);
    if (const std::string hint = split_hint(class_names); !found.own_test && !hint.empty()) out.line("  " + hint);
    if (found.in_both.count > 0)
        out.line("  in both splits: " + counted(found.in_both.count, "image") + " (" + found.in_both.examples[0] + ")");
    if (found.outside.count > 0)
        out.line("  outside of the folder that names them: " + counted(found.outside.count, "image") +
                 named(found.outside));
    print_skipped(out, found);
    print_left_out(out, all);
}

}  // namespace convoy
