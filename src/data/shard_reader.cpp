// Reads a data set. The constructor opens and checks the shards before the caller allocates what
// they claim. Checksums are compared later, chunk by chunk, when rows are read.
#include <algorithm>
#include <climits>
#include <filesystem>
#include <map>

#include "base/folder.h"
#include "base/input_file.h"
#include "base/shell_word.h"
#include "data/digest.h"
#include "data/other_folder.h"
#include "data/shard.h"
#include "data/shard_checks.h"
#include "data/shard_folder.h"
#include "data/shard_format.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

/// Finds the shards of `split` in `dir`, by number. Sets `shards` to the total in their names.
std::map<int, std::string> find_shards(const std::string& dir, const std::string& split, int& shards) {
    check_holds_shards(dir);
    std::map<int, std::string> found;
    shards = 0;
    for (const std::string& name : files_in(dir, "'convoy convert' makes a data set, 'make data' fetches CIFAR-10")) {
        std::string of_split;
        int shard = 0, of = 0;
        if (!parse_shard_name(name, of_split, shard, of) || of_split != split) continue;
        if (shards != 0 && of != shards)
            fail(Exit::bad_input, dir + ": holds shards of two data sets (" + name + " beside " +
                                      shard_name(split, found.begin()->first, shards) +
                                      "); convert again into an empty folder");
        shards = of;
        found[shard] = fs::path(dir) / name;
    }
    if (found.empty())
        fail(Exit::bad_input, dir + ": holds no " + split + " shards; make them with convoy convert … --to " +
                                  (files_in(dir, "check the path").empty() ? shell_word(dir) : "a new folder"));
    for (int i = 0; i < shards; ++i)
        if (!found.contains(i))
            fail(Exit::bad_input,
                 dir + "/" + shard_name(split, i, shards) + ": is missing; convert the data set again");
    return found;
}

void check_label_count(int64_t images, hsize_t labels, const std::string& path) {
    if (labels != hsize_t(images))
        fail(Exit::bad_input, path + ": has " + std::to_string(images) + " images, but " + std::to_string(labels) +
                                  " labels; convert the data set again");
}

}  // namespace

SplitReader::SplitReader(const std::string& dir, const std::string& split, size_t most_open) : most_open_(most_open) {
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
        if (const uint64_t size = size_of_input(path, was_it_moved); size != uint64_t(entry->second.bytes))
            fail(Exit::bad_input, path + ": has " + std::to_string(size) + " bytes, manifest.json says " +
                                      std::to_string(entry->second.bytes) +
                                      ": it is truncated or of another data set; convert the data set again");
        add_shard(path, shard, shards);
        if (shards_.back().images != entry->second.images)
            fail(Exit::bad_input, path + ": has " + std::to_string(shards_.back().images) +
                                      " images, manifest.json says " + std::to_string(entry->second.images) +
                                      "; convert the data set again");
        listed.erase(entry);
    }
    if (info_.images > INT_MAX)
        fail(Exit::bad_input, dir + ": its " + split + " split has " + std::to_string(info_.images) +
                                  " images, but training numbers them with 32 bits; split the data set");
    if (!listed.empty())
        fail(Exit::bad_input,
             dir + "/" + listed.begin()->first + ": is in manifest.json, but missing; convert the data set again");
}

/// Reads and checks the root attributes. Those of the other shards must equal the first shard's.
void SplitReader::check_common(const h5::Handle& file, const std::string& path, int shard, int shards) {
    SplitInfo own;
    const std::string format = h5::string_attribute(file, "format", path);
    if (format == format_of(DType::f32)) own.type = DType::f32;
    own.ragged = format == ragged_format;
    if ((format != format_of(own.type) && !own.ragged) || h5::int_attribute(file, "version", path) != 1)
        fail(Exit::bad_input, path +
                                  ": is not a version 1 convoy-images, convoy-ragged or convoy-vectors file; make it "
                                  "with this version's 'convoy convert'");
    if (own.ragged) own.codec = h5::string_attribute(file, "codec", path);
    if (h5::string_attribute(file, "split", path) != info_.split || h5::int_attribute(file, "shard", path) != shard ||
        h5::int_attribute(file, "shards", path) != shards)
        fail(Exit::bad_input, path +
                                  ": its split, shard or shards attribute contradicts its name: it was renamed; "
                                  "convert the data set again");
    own.classes = checked_range(h5::int_attribute(file, "classes", path), 1, max_classes, "classes", path);
    own.class_names = h5::string_attributes(file, "class_names", path);
    check_class_lengths(own.class_names, path + ": ", "convert the data set again");
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
        info_.ragged = own.ragged;
        info_.codec = own.codec;
        info_.classes = own.classes;
        info_.class_names = own.class_names;
        info_.mean = own.mean;
        info_.stddev = own.stddev;
    } else if (info_.type != own.type || info_.ragged != own.ragged || info_.codec != own.codec ||
               info_.classes != own.classes || info_.class_names != own.class_names || info_.mean != own.mean ||
               info_.stddev != own.stddev) {
        fail(Exit::bad_input, path + ": format, classes, mean or stddev differ from " + shards_[0].path +
                                  "; convert the data set again");
    }
}

void SplitReader::check_images(Shard& added, const OpenShard& opened, hsize_t labels) {
    const std::string& path = added.path;
    const h5::Extent images = checked_extent(opened.file, "/images", 4, stored_as(info_.type), path);
    const auto side = [&](int i, int64_t limit, const char* what) {
        return checked_range(int64_t(std::min<hsize_t>(images.dims[i], INT64_MAX)), 1, limit, what, path);
    };
    added.images = side(0, max_images, "the number of images");
    const int height = side(1, max_side, "the height"), width = side(2, max_side, "the width"),
              channels = side(3, max_channels, "channels");
    check_label_count(added.images, labels, path);
    check_stored(images,
                 uint64_t(added.images) * uint64_t(height) * uint64_t(width) * uint64_t(channels) * size_of(info_.type),
                 "/images", path);
    if (shards_.empty()) {
        info_.height = height;
        info_.width = width;
        info_.channels = channels;
    } else if (info_.height != height || info_.width != width || info_.channels != channels) {
        fail(Exit::bad_input, path + ": its images have another shape than those of " + shards_[0].path +
                                  "; convert the data set again");
    }
}

void SplitReader::check_ragged(Shard& added, OpenShard& opened, hsize_t labels) {
    opened.ragged = std::make_unique<RaggedRows>(opened.file, info_.codec, added.path);
    added.table = opened.ragged->table();
    added.images = added.table->rows();
    check_label_count(added.images, labels, added.path);
    for (int64_t row = 0; row < added.images; ++row) {
        info_.height = std::max(info_.height, added.table->height(row));
        info_.width = std::max(info_.width, added.table->width(row));
    }
    info_.channels = 3;
    added.first_byte = info_.pixel_bytes;
    info_.pixel_bytes += added.table->decoded_before(added.images);
}

void SplitReader::add_shard(const std::string& path, int shard, int shards) {
    Shard added{.path = path};
    OpenShard opened{shards_.size(), h5::open(path)};
    check_common(opened.file, path, shard, shards);
    const h5::Extent labels = checked_extent(opened.file, "/labels", 1, stored_as(DType::i32), path);
    info_.ragged ? check_ragged(added, opened, labels.dims[0]) : check_images(added, opened, labels.dims[0]);
    check_stored(labels, uint64_t(added.images) * 4, "/labels", path);
    if (info_.mean.size() != size_t(info_.channels) || info_.stddev.size() != size_t(info_.channels))
        fail(Exit::bad_input, path + ": mean and stddev do not have one value per channel; convert the data set again");
    if (!info_.ragged) opened.image_set = h5::open_dataset(opened.file, "/images", path);
    opened.label_set = h5::open_dataset(opened.file, "/labels", path);
    added.first = info_.images;
    info_.images += added.images;
    shards_.push_back(std::move(added));
    keep(std::move(opened));
}

void SplitReader::keep(OpenShard opened) const {
    if (open_.size() >= most_open_) open_.pop_front();
    open_.push_back(std::move(opened));
}

const SplitReader::OpenShard& SplitReader::opened(size_t shard) const {
    const auto is_it = [&](const OpenShard& open) { return open.shard == shard; };
    if (const auto found = std::find_if(open_.begin(), open_.end(), is_it); found != open_.end()) return *found;
    const Shard& known = shards_[shard];
    const std::string pixels = known.table ? "/pixels" : "/images";
    const auto images = hsize_t(known.images);
    OpenShard again{shard, h5::open(known.path)};
    std::vector<hsize_t> dims = {images, hsize_t(info_.height), hsize_t(info_.width), hsize_t(info_.channels)};
    if (known.table) dims = {hsize_t(known.table->offset(known.images))};
    // Types and sizes are checked again, because HDF5 would read beyond its buffers for some.
    const h5::Extent stored = checked_extent(again.file, pixels, dims.size(), stored_as(info_.type), known.path),
                     labels = checked_extent(again.file, "/labels", 1, stored_as(DType::i32), known.path);
    if (stored.dims != dims || labels.dims != std::vector<hsize_t>{images})
        fail(Exit::bad_input, known.path + ": was replaced since it was first opened; put it back, and start again");
    if (known.table)
        again.ragged = std::make_unique<RaggedRows>(again.file, known.table, known.path);
    else
        again.image_set = h5::open_dataset(again.file, pixels, known.path);
    again.label_set = h5::open_dataset(again.file, "/labels", known.path);
    keep(std::move(again));
    return open_.back();
}

std::vector<ImagePlace> SplitReader::places() const {
    require(info_.ragged, "only images that differ in size have places");
    std::vector<ImagePlace> places;
    places.reserve(size_t(info_.images));
    for (const Shard& shard : shards_)
        for (int64_t row = 0; row < shard.images; ++row)
            places.push_back({shard.first_byte + shard.table->decoded_before(row), shard.table->height(row),
                              shard.table->width(row)});
    return places;
}

ShardPixels SplitReader::pixels(size_t shard) const {
    const Shard& s = shards_.at(shard);
    return {s.path, s.first, s.images, opened(shard).file, s.table};
}

uint8_t* SplitReader::read_images(size_t shard, int64_t first, int64_t rows, uint8_t* to) const {
    const Shard& s = shards_[shard];
    if (s.table) {
        opened(shard).ragged->read(first, rows, to);
        return to + s.table->decoded_before(first + rows) - s.table->decoded_before(first);
    }
    h5::read_rows(opened(shard).image_set, native_type(info_.type), hsize_t(first), hsize_t(rows), to, s.path);
    if (info_.type == DType::f32) check_finite(to, first, rows, info_.row_bytes(), s.path);
    return to + rows * int64_t(info_.row_bytes());
}

void SplitReader::read(int64_t first, int64_t rows, uint8_t* images, int32_t* labels) const {
    require(first >= 0 && rows >= 0 && rows <= info_.images - first, "rows beyond the end of a split");
    for (size_t i = 0; i < shards_.size(); ++i) {
        const Shard& shard = shards_[i];
        const int64_t from = std::max(first, shard.first), to = std::min(first + rows, shard.first + shard.images);
        if (from < to) images = read_images(i, from - shard.first, to - from, images);
    }
    read_labels(first, rows, labels);
}

void SplitReader::read_labels(int64_t first, int64_t rows, int32_t* labels) const {
    for (size_t i = 0; i < shards_.size(); ++i) {
        const Shard& shard = shards_[i];
        const int64_t from = std::max(first, shard.first), to = std::min(first + rows, shard.first + shard.images);
        if (from >= to) continue;
        const hsize_t local = hsize_t(from - shard.first), count = hsize_t(to - from);
        int32_t* out = labels + (from - first);
        h5::read_rows(opened(i).label_set, H5T_NATIVE_INT32, local, count, out, shard.path);
        for (hsize_t row = 0; row < count; ++row)
            if (out[row] < 0 || out[row] >= info_.classes)
                fail(Exit::bad_input, shard.path + ": row " + std::to_string(local + row) + " of /labels is " +
                                          std::to_string(out[row]) + ", allowed is 0 to " +
                                          std::to_string(info_.classes - 1) + "; convert the data set again");
    }
}

}  // namespace convoy
