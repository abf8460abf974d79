// Reads a data set. The constructor opens and checks the shards, before the caller allocates for
// what they claim. Damage that only checksums show is found later: they are compared chunk by
// chunk, as rows are read.
#include "data/shard.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/input_file.h"
#include "data/digest.h"
#include "data/shard_format.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

// No honest data set is beyond these; with them, no product of extents overflows int64_t.
constexpr int64_t max_side = 4096, max_channels = 16, max_classes = 1'000'000, max_images = 1'000'000'000;
constexpr hsize_t max_chunk_bytes = hsize_t(512) << 20;

/// Size of a regular file in bytes; 0 for anything else, which no caller accepts.
uint64_t size_of_file(const std::string& path) {
    std::error_code error;
    const uintmax_t size = fs::file_size(path, error);
    return error ? 0 : uint64_t(size);
}

std::string manifest_text(const std::string& dir) {
    const std::string path = dir + "/manifest.json", advice = "make the data set again with 'convoy convert'";
    std::error_code error;
    if (!fs::exists(path, error)) fail(Exit::bad_input, path + ": is missing or unreadable; " + advice);
    size_of_input(path, advice);
    return text_of_input(path, 64 << 20, advice);
}

/// The shards of `split` found in `dir`, by number; `shards` is the total their names agree on.
std::map<int, std::string> find_shards(const std::string& dir, const std::string& split, int& shards) {
    std::error_code error;
    fs::directory_iterator entries(dir, error);
    if (error)
        fail(Exit::bad_input,
             dir + ": " + error.message() + "; 'convoy convert' makes a data set, 'make data' fetches CIFAR-10");
    std::map<int, std::string> found;
    shards = 0;
    for (const fs::directory_entry& entry : entries) {
        const std::string name = entry.path().filename();
        std::string of_split;
        int shard = 0, of = 0;
        if (!parse_shard_name(name, of_split, shard, of) || of_split != split) continue;
        if (shards != 0 && of != shards)
            fail(Exit::bad_input, dir + ": holds shards of two data sets (" + name + " beside " +
                                      shard_name(split, found.begin()->first, shards) +
                                      "); convert again into an empty folder");
        shards = of;
        found[shard] = entry.path();
    }
    if (found.empty())
        fail(Exit::bad_input,
             dir + ": holds no " + split + " shards; make them with 'convoy convert … --to " + dir + "'");
    for (int i = 0; i < shards; ++i)
        if (!found.contains(i))
            fail(Exit::bad_input,
                 dir + "/" + shard_name(split, i, shards) + ": is missing; convert the data set again");
    return found;
}

int checked_range(int64_t value, int64_t low, int64_t high, const std::string& what, const std::string& path) {
    if (value < low || value > high)
        fail(Exit::bad_input, path + ": " + what + " is " + std::to_string(value) + ", allowed is " +
                                  std::to_string(low) + " to " + std::to_string(high) + "; convert the data set again");
    return int(value);
}

/// Checks that a data set is what the format says, down to the bytes the file really stores for it.
h5::Extent checked_extent(hid_t file, const std::string& name, size_t rank, DType type, const std::string& path) {
    const h5::Extent extent = h5::extent(file, name, path);
    const std::string set = path + ": " + name;
    const bool fits = type == DType::f32 ? extent.type_class == H5T_FLOAT
                                         : extent.type_class == H5T_INTEGER && extent.is_signed == (type == DType::i32);
    if (extent.dims.size() != rank || !fits || extent.type_size != size_of(type))
        fail(Exit::bad_input, set + " is not of rank " + std::to_string(rank) + " and type " + stored_name(type) +
                                  "; was this file made by 'convoy convert'?");
    if (!extent.checksummed || extent.filters != 1)
        fail(Exit::bad_input,
             set + " is not stored in plain chunks with Fletcher-32 checksums; make it with 'convoy convert'");
    if (extent.chunk_bytes == 0 || extent.chunk_bytes > max_chunk_bytes)
        fail(Exit::bad_input,
             set + " has chunks of " + std::to_string(extent.chunk_bytes) + " bytes; make it with 'convoy convert'");
    return extent;
}

void check_stored(const h5::Extent& extent, uint64_t bytes, const std::string& name, const std::string& path) {
    const uint64_t size = size_of_file(path);
    if (size < bytes || extent.stored_bytes < bytes)
        fail(Exit::bad_input, path + ": " + name + " claims " + std::to_string(bytes) + " bytes, but the file holds " +
                                  std::to_string(std::min<uint64_t>(size, extent.stored_bytes)) +
                                  "; convert the data set again");
}

/// Of vectors [rows] of so many bytes each, the first of which is row `first` of a shard.
void check_finite(const uint8_t* vectors, hsize_t first, hsize_t rows, size_t bytes, const std::string& path) {
    for (hsize_t row = 0; row < rows; ++row)
        for (size_t at = 0; at < bytes; at += sizeof(float)) {
            float value = 0;
            std::memcpy(&value, vectors + row * bytes + at, sizeof value);
            if (!std::isfinite(value))
                fail(Exit::bad_input, path + ": row " + std::to_string(first + row) + " of /images holds a number " +
                                          "that is not finite; convert the data set again");
        }
}

}  // namespace

std::string shard_name(const std::string& split, int shard, int shards) {
    char number[32];
    std::snprintf(number, sizeof number, "-%05d-of-%05d.h5", shard, shards);
    return split + number;
}

bool parse_shard_name(const std::string& file, std::string& split, int& shard, int& shards) {
    for (const char* name : {"train", "test"}) {
        int end = 0;
        const std::string pattern = std::string(name) + "-%5d-of-%5d.h5%n";
        if (std::sscanf(file.c_str(), pattern.c_str(), &shard, &shards, &end) != 2 || size_t(end) != file.size())
            continue;
        if (shard < 0 || shard >= shards || file != shard_name(name, shard, shards)) continue;
        split = name;
        return true;
    }
    return false;
}

std::vector<ManifestEntry> read_manifest(const std::string& dir) {
    const std::string text = manifest_text(dir);
    try {
        const auto json = nlohmann::json::parse(text);
        if (json.at("format") != "convoy-manifest" || json.at("version") != 1)
            throw std::invalid_argument("not a version 1 convoy-manifest");
        std::vector<ManifestEntry> entries;
        for (const auto& item : json.at("shards"))
            entries.push_back(
                {item.at("file"), item.at("split"), item.at("images"), item.at("bytes"), item.at("sha256")});
        for (const ManifestEntry& entry : entries) {
            std::string split;
            int shard = 0, shards = 0;
            if (!parse_shard_name(entry.file, split, shard, shards) || split != entry.split)
                throw std::invalid_argument("bad shard name");
        }
        return entries;
    } catch (const std::exception& error) {
        fail(Exit::bad_input, dir + "/manifest.json: is damaged (" + std::string(error.what()).substr(0, 120) +
                                  "); convert the data set again");
    }
}

SplitReader::SplitReader(const std::string& dir, const std::string& split) {
    info_.split = split;
    int shards = 0;
    const std::map<int, std::string> found = find_shards(dir, split, shards);
    const std::string manifest = manifest_text(dir);
    info_.manifest_sha256 = digest_of(Digest::Kind::sha256, manifest.data(), manifest.size());
    std::map<std::string, ManifestEntry> listed;
    for (const ManifestEntry& entry : read_manifest(dir))
        if (entry.split == split) listed[entry.file] = entry;
    for (const auto& [shard, path] : found) {
        const auto entry = listed.find(fs::path(path).filename());
        if (entry == listed.end())
            fail(Exit::bad_input, path + ": is not in manifest.json; convert the data set again");
        if (const uint64_t size = size_of_file(path); size != uint64_t(entry->second.bytes))
            fail(Exit::bad_input, path + ": has " + std::to_string(size) + " bytes, manifest.json says " +
                                      std::to_string(entry->second.bytes) +
                                      ": it is truncated or of another data set; convert the data set again");
        shards_.push_back(open_shard(path, shard, shards));
        if (shards_.back().images != entry->second.images)
            fail(Exit::bad_input, path + ": has " + std::to_string(shards_.back().images) +
                                      " images, manifest.json says " + std::to_string(entry->second.images) +
                                      "; convert the data set again");
        listed.erase(entry);
    }
    if (info_.images > INT_MAX)
        fail(Exit::bad_input, dir + ": its " + split + " split has " + std::to_string(info_.images) +
                                  " images, and a training numbers them with 32 bits; split the data set");
    if (!listed.empty())
        fail(Exit::bad_input,
             dir + "/" + listed.begin()->first + ": is in manifest.json, but missing; convert the data set again");
}

/// Reads and checks the root attributes; the first shard sets what the others must repeat.
void SplitReader::check_common(const h5::Handle& file, const std::string& path, int shard, int shards) {
    SplitInfo own;
    const std::string format = h5::string_attribute(file, "format", path);
    if (format == format_of(DType::f32)) own.type = DType::f32;
    if (format != format_of(own.type) || h5::int_attribute(file, "version", path) != 1)
        fail(Exit::bad_input, path +
                                  ": is not a version 1 convoy-images or convoy-vectors file; make it with this "
                                  "version's 'convoy convert'");
    if (h5::string_attribute(file, "split", path) != info_.split || h5::int_attribute(file, "shard", path) != shard ||
        h5::int_attribute(file, "shards", path) != shards)
        fail(Exit::bad_input, path +
                                  ": its split, shard or shards attribute contradicts its name: it was renamed; "
                                  "convert the data set again");
    own.classes = checked_range(h5::int_attribute(file, "classes", path), 1, max_classes, "classes", path);
    own.class_names = h5::string_attributes(file, "class_names", path);
    const std::vector<double> mean = h5::double_attributes(file, "mean", path),
                              stddev = h5::double_attributes(file, "stddev", path);
    for (const double value : mean)
        if (!(value >= 0 && value <= 1))
            fail(Exit::bad_input, path + ": mean is not within 0 to 1; convert the data set again");
    for (const double value : stddev)
        if (!(value >= 0 && value <= 1))
            fail(Exit::bad_input, path + ": stddev is not within 0 to 1; convert the data set again");
    own.mean.assign(mean.begin(), mean.end());
    own.stddev.assign(stddev.begin(), stddev.end());
    if (own.class_names.size() != size_t(own.classes))
        fail(Exit::bad_input, path + ": class_names and classes differ; convert the data set again");
    if (shards_.empty()) {
        info_.type = own.type;
        info_.classes = own.classes;
        info_.class_names = own.class_names;
        info_.mean = own.mean;
        info_.stddev = own.stddev;
    } else if (info_.type != own.type || info_.classes != own.classes || info_.class_names != own.class_names ||
               info_.mean != own.mean || info_.stddev != own.stddev) {
        fail(Exit::bad_input, path + ": format, classes, mean or stddev differ from " + shards_[0].path +
                                  "; convert the data set again");
    }
}

SplitReader::Shard SplitReader::open_shard(const std::string& path, int shard, int shards) {
    Shard opened;
    opened.path = path;
    opened.file = h5::open(path);
    check_common(opened.file, path, shard, shards);
    const h5::Extent images = checked_extent(opened.file, "/images", 4, info_.type, path);
    const h5::Extent labels = checked_extent(opened.file, "/labels", 1, DType::i32, path);
    const auto side = [&](int i, int64_t limit, const char* what) {
        return checked_range(int64_t(std::min<hsize_t>(images.dims[size_t(i)], INT64_MAX)), 1, limit, what, path);
    };
    opened.images = side(0, max_images, "the number of images");
    const int height = side(1, max_side, "the height"), width = side(2, max_side, "the width"),
              channels = side(3, max_channels, "channels");
    if (labels.dims[0] != images.dims[0])
        fail(Exit::bad_input, path + ": has " + std::to_string(images.dims[0]) + " images, but " +
                                  std::to_string(labels.dims[0]) + " labels; convert the data set again");
    check_stored(
        images, uint64_t(opened.images) * uint64_t(height) * uint64_t(width) * uint64_t(channels) * size_of(info_.type),
        "/images", path);
    check_stored(labels, uint64_t(opened.images) * 4, "/labels", path);
    if (shards_.empty()) {
        info_.height = height;
        info_.width = width;
        info_.channels = channels;
        if (info_.mean.size() != size_t(channels) || info_.stddev.size() != size_t(channels))
            fail(Exit::bad_input, path + ": mean or stddev has not one value a channel; convert the data set again");
    } else if (info_.height != height || info_.width != width || info_.channels != channels) {
        fail(Exit::bad_input, path + ": its images have another shape than those of " + shards_[0].path +
                                  "; convert the data set again");
    }
    opened.image_set = h5::open_dataset(opened.file, "/images", path);
    opened.label_set = h5::open_dataset(opened.file, "/labels", path);
    opened.first = info_.images;
    info_.images += opened.images;
    return opened;
}

void SplitReader::read(int64_t first, int64_t rows, uint8_t* images, int32_t* labels) const {
    require(first >= 0 && rows >= 0 && rows <= info_.images - first, "rows beyond the end of a split");
    const auto image_bytes = int64_t(info_.row_bytes());
    for (const Shard& shard : shards_) {
        const int64_t from = std::max(first, shard.first), to = std::min(first + rows, shard.first + shard.images);
        if (from >= to) continue;
        const hsize_t local = hsize_t(from - shard.first), count = hsize_t(to - from);
        int32_t* out = labels + (from - first);
        uint8_t* pixels = images + (from - first) * image_bytes;
        h5::read_rows(shard.image_set, native_type(info_.type), local, count, pixels, shard.path);
        if (info_.type == DType::f32) check_finite(pixels, local, count, size_t(image_bytes), shard.path);
        h5::read_rows(shard.label_set, H5T_NATIVE_INT32, local, count, out, shard.path);
        for (hsize_t i = 0; i < count; ++i)
            if (out[i] < 0 || out[i] >= info_.classes)
                fail(Exit::bad_input, shard.path + ": row " + std::to_string(local + i) + " of /labels is " +
                                          std::to_string(out[i]) + ", allowed is 0 to " +
                                          std::to_string(info_.classes - 1) + "; convert the data set again");
    }
}

void check_same_shape(const SplitInfo& a, const SplitInfo& b, const std::string& dir) {
    const auto shape = [](const SplitInfo& info) {
        return info.split + " images are " + std::to_string(info.height) + "x" + std::to_string(info.width) + "x" +
               std::to_string(info.channels) + " of " + std::to_string(info.classes) + " classes";
    };
    if (a.type != b.type || a.height != b.height || a.width != b.width || a.channels != b.channels ||
        a.classes != b.classes || a.class_names != b.class_names || a.mean != b.mean || a.stddev != b.stddev)
        fail(Exit::bad_input,
             dir + ": " + shape(a) + ", " + shape(b) + ": the splits are of different data sets; convert again");
}

}  // namespace convoy
