// Decodes CIFAR-10 and CIFAR-100, from records of bytes (the binary version) or from pickles (the
// Python version). Both have planar pixels, which become NHWC. All members are collected before
// they are joined, because archives hold them in another order (data_batch_2 last but one).
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/input_file.h"
#include "data/cifar_layouts.h"
#include "data/decode.h"
#include "data/digest.h"
#include "data/input_bytes.h"
#include "data/pickle.h"
#include "data/tar.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

using Layout = CifarLayout;

constexpr int side = 32, plane = side * side, colours = 3, image_bytes = Layout::image_bytes;

struct Images {
    std::vector<uint8_t> pixels;  ///< [n, 32, 32, 3]
    std::vector<int32_t> labels;  ///< [n]
};

/// The members of one layout that have been read, by name.
struct Batches {
    Layout layout;
    int64_t limit;
    std::map<std::string, Images> images{};
    std::vector<std::string> class_names{};
    std::vector<std::string> warnings{};

    bool empty() const { return images.empty() && class_names.empty(); }
};

/// Fills out.pixels with `count` images; pixel(row, i) is byte i of planar image `row`.
template <class Pixel> void fill_pixels(size_t count, const Pixel& pixel, Images& out) {
    out.pixels.resize(count * image_bytes);
    for (size_t row = 0; row < count; ++row) {
        uint8_t* image = &out.pixels[row * image_bytes];
        for (int i = 0; i < plane; ++i)
            for (int c = 0; c < colours; ++c) image[i * colours + c] = pixel(row, c * plane + i);
    }
}

void append_label(int64_t label, const std::string& place, const Layout& layout, const std::string& where,
                  Images& out) {
    if (label < 0 || label >= layout.classes)
        fail(Exit::bad_input, where + ": " + place + " has label " + std::to_string(label) + ", allowed is 0 to " +
                                  std::to_string(layout.classes - 1) + ": this is not " + layout.title +
                                  ", or it is damaged");
    out.labels.push_back(int32_t(label));
}

size_t taken(size_t images, int64_t limit) { return limit > 0 ? std::min(images, size_t(limit)) : images; }

/// Decodes a binary file's images into `out`, up to the limit. Returns the number in the file.
size_t decode_records(const std::vector<uint8_t>& bytes, const Batches& batches, const std::string& member,
                      const std::string& where, Images& out) {
    const Layout& layout = batches.layout;
    const size_t record = layout.record_bytes(), images = bytes.size() / record;
    if (bytes.empty() || bytes.size() % record != 0)
        fail(Exit::bad_input, where + ": has " + std::to_string(bytes.size()) + " bytes, not a multiple of the " +
                                  std::to_string(record) + " of a record (" +
                                  std::to_string(layout.most_bytes(member)) +
                                  " in the official file): it is truncated, get it again");
    const size_t count = taken(images, batches.limit);
    for (size_t row = 0; row < count; ++row)
        append_label(bytes[row * record + layout.label_at],
                     "row " + std::to_string(row) + " (byte " + std::to_string(row * record + layout.label_at) + ")",
                     layout, where, out);
    const auto pixel = [&](size_t row, int i) { return bytes[row * record + layout.label_bytes + size_t(i)]; };
    fill_pixels(count, pixel, out);
    return images;
}

/// Does the same for a pickled file.
size_t decode_pickle(const std::vector<uint8_t>& bytes, const Batches& batches, const std::string& member,
                     const std::string& where, Images& out) {
    const Layout& layout = batches.layout;
    const Pickle pickle(bytes, where);
    const ByteMatrix& data = pickle.matrix("data");
    const std::vector<int64_t> labels = pickle.numbers(layout.labels);
    if (data.columns != image_bytes || data.rows < 1 || data.rows > int64_t(layout.images_of(member)) ||
        data.rows != int64_t(labels.size()))
        fail(Exit::bad_input, where + ": has 'data' of " + std::to_string(data.rows) + " x " +
                                  std::to_string(data.columns) + " and " + std::to_string(labels.size()) + " '" +
                                  layout.labels + "', where " + layout.title + " has " +
                                  std::to_string(layout.images_of(member)) + " x 3072 and a label each; get it again");
    const size_t count = taken(labels.size(), batches.limit);
    for (size_t row = 0; row < count; ++row)
        append_label(labels[row], "row " + std::to_string(row), layout, where, out);
    fill_pixels(count, [&](size_t row, int i) { return data.at(int64_t(row), i); }, out);
    return labels.size();
}

std::vector<std::string> decode_names(const std::vector<uint8_t>& bytes, const Layout& layout,
                                      const std::string& where) {
    const auto check_count = [&](size_t count) {
        if (count != size_t(layout.classes))
            fail(Exit::bad_input, where + ": names " + std::to_string(count) + " classes instead of " +
                                      std::to_string(layout.classes) + "; get " + layout.title + " again");
    };
    std::vector<std::string> names;
    if (layout.pickled()) {
        const Pickle pickle(bytes, where);
        const std::vector<std::string_view> texts = pickle.texts(layout.class_names);
        check_count(texts.size());  // before copying, because the list may hold one long text many times
        names.assign(texts.begin(), texts.end());
    } else {
        std::istringstream lines(plain_text({bytes.begin(), bytes.end()}, where, "it has a line for each class"));
        for (std::string line; std::getline(lines, line);) {
            while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
            if (!line.empty()) names.push_back(line);
        }
    }
    check_count(names.size());
    return names;
}

void check_size(const std::string& member, uint64_t bytes, const Layout& layout, const std::string& where) {
    if (const size_t most = layout.most_bytes(member); bytes > most)
        fail(Exit::bad_input, where + ": has " + std::to_string(bytes) + " bytes, that of " + layout.title +
                                  " has at most " + std::to_string(most) + "; get it again");
}

void add_member(const std::string& member, const std::vector<uint8_t>& bytes, const std::string& where,
                Batches& batches) {
    const Layout& layout = batches.layout;
    if (member == layout.names) {
        batches.class_names = decode_names(bytes, layout, where);
        return;
    }
    if (batches.images.contains(member)) fail(Exit::bad_input, where + ": occurs twice; get the archive again");
    Images& out = batches.images[member];
    const size_t images = layout.pickled() ? decode_pickle(bytes, batches, member, where, out)
                                           : decode_records(bytes, batches, member, where, out);
    if (images != layout.images_of(member))
        batches.warnings.push_back(where + ": has " + std::to_string(images) + " images, the official file has " +
                                   std::to_string(layout.images_of(member)));
}

/// Returns the batches of the first layout of which a member was read; else those of the first.
Batches& found(std::vector<Batches>& all) {
    const auto first = std::find_if(all.begin(), all.end(), [](const Batches& b) { return !b.empty(); });
    return first == all.end() ? all.front() : *first;
}

Batches& read_archive(const std::string& path, std::vector<Batches>& all, Source& source) {
    const std::string expected = all[0].layout.archive + " or " + all[1].layout.archive;
    size_of_input(path, "give " + expected + ", or the folder unpacked from it");
    const ArchiveDigests digests = visit_tar_gz(path, expected, [&](const TarMember& member) {
        for (Batches& batches : all) {
            if (!batches.layout.has(member.name)) continue;
            const std::string where = path + ": " + member.name;
            check_size(member.name, member.bytes, batches.layout, where);
            return add_member(member.name, member.read(), where, batches);
        }
    });
    Batches& batches = found(all);
    const Layout& layout = batches.layout;
    source.checksum = digests.md5 == layout.md5 ? "official" : "differs";
    if (source.checksum == "differs")
        batches.warnings.push_back(path + ": is not the official archive (its MD5 is not " + layout.md5 +
                                   "); converting what it holds");
    source.files = {fs::path(path).filename()};
    source.sha256 = {digests.sha256};
    return batches;
}

/// Returns the folder with the files of `layout`: `folder`, or the subfolder that the archive
/// unpacks to.
fs::path folder_of(const fs::path& folder, const Layout& layout) {
    std::error_code error;
    for (const fs::path& candidate : {folder / layout.folder, folder})
        if (fs::exists(candidate / layout.names, error)) return candidate;
    return fs::is_directory(folder / layout.folder, error) ? folder / layout.folder : fs::path();
}

Batches& read_folder(const std::string& from, std::vector<Batches>& all, Source& source) {
    const auto there =
        std::find_if(all.begin(), all.end(), [&](const Batches& b) { return !folder_of(from, b.layout).empty(); });
    Batches& batches = there == all.end() ? all.front() : *there;
    const Layout& layout = batches.layout;
    const fs::path folder = there == all.end() ? fs::path(from) : folder_of(from, layout);
    std::vector<std::string> members = layout.train;
    members.insert(members.end(), {layout.test, layout.names});
    for (const std::string& member : members) {
        const std::string path = folder / member;
        std::error_code error;
        if (!fs::is_regular_file(path, error))
            fail(Exit::bad_input,
                 path + ": is missing; unpack " + layout.archive + " again, or give the archive itself");
        const InputBytes file(path, "check its permissions");
        check_size(member, uint64_t(file.size()), layout, path);
        std::vector<uint8_t> bytes(size_t(file.size()));
        file.read(0, file.size(), bytes.data());
        add_member(member, bytes, path, batches);
        source.files.push_back(member);
        source.sha256.push_back(digest_of(Digest::Kind::sha256, bytes.data(), bytes.size()));
    }
    batches.warnings.push_back(from +
                               ": is a folder; whether it is the official data set can only be checked on the archive");
    return batches;
}

/// Joins the batches called `names` into one split, freeing each as it is copied.
Split join(const std::string& split, const std::vector<std::string>& names, const std::string& from, Batches& batches) {
    Images all;
    for (const std::string& name : names) {
        const auto batch = batches.images.find(name);
        if (batch == batches.images.end())
            fail(Exit::bad_input, from + ": has no member " + name + "; is it " + batches.layout.archive + "?");
        all.pixels.insert(all.pixels.end(), batch->second.pixels.begin(), batch->second.pixels.end());
        all.labels.insert(all.labels.end(), batch->second.labels.begin(), batch->second.labels.end());
        batches.images.erase(batch);
    }
    return split_in_memory(split, side, side, colours, std::move(all.pixels), std::move(all.labels));
}

Source decode_cifar(const std::string& from, const std::vector<Layout>& layouts, int64_t limit) {
    std::vector<Batches> all;
    for (const Layout& layout : layouts) all.push_back({.layout = layout, .limit = limit});
    Source source;
    std::error_code error;
    Batches& batches = fs::is_directory(from, error) ? read_folder(from, all, source) : read_archive(from, all, source);
    const Layout& layout = batches.layout;
    if (batches.class_names.empty())
        fail(Exit::bad_input, from + ": has no member " + layout.names + "; is it " + layout.archive + "?");
    source.splits.push_back(join("train", layout.train, from, batches));
    source.splits.push_back(join("test", {layout.test}, from, batches));
    source.class_names = batches.class_names;
    source.warnings = batches.warnings;
    return source;
}

}  // namespace

Split split_in_memory(std::string name, int height, int width, int channels, std::vector<uint8_t> images,
                      std::vector<int32_t> labels) {
    Split split{std::move(name), int64_t(labels.size()), height, width, channels, nullptr};
    const auto bytes = size_t(split.image_bytes());
    require(images.size() == labels.size() * bytes, "one label per image");
    struct Rows {
        std::vector<uint8_t> images;
        std::vector<int32_t> labels;
    };
    // Shared, because std::function must be copyable.
    const auto rows = std::make_shared<const Rows>(Rows{std::move(images), std::move(labels)});
    split.read = [rows, bytes](int64_t first, int64_t count, uint8_t* to, int32_t* labels_to) {
        std::copy_n(rows->images.begin() + first * int64_t(bytes), size_t(count) * bytes, to);
        std::copy_n(rows->labels.begin() + first, count, labels_to);
    };
    return split;
}

Source decode_cifar10(const std::string& from, int64_t limit_per_file) {
    return decode_cifar(from, cifar10_layouts(), limit_per_file);
}

Source decode_cifar100(const std::string& from, int64_t limit_per_file, bool coarse) {
    return decode_cifar(from, cifar100_layouts(coarse), limit_per_file);
}

}  // namespace convoy
