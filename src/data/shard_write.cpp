// Writes a data set into a folder next to its destination and renames it at the end, so that a
// failed conversion leaves nothing half-written. The same source gives the same bytes: no time
// stamps, no compression whose version could matter.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "data/digest.h"
#include "data/shard.h"
#include "data/shard_format.h"
#include "data/shard_pictures.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

// HDF5's chunk cache holds 1 MiB: a larger chunk would be read again for every row
constexpr int64_t chunk_target_bytes = 1 << 20;

/// Rows a chunk: as many as fit in the target, evened out so that the last chunk (stored in full
/// size) wastes little.
int64_t rows_per_chunk(int64_t rows, int64_t row_bytes) {
    const int64_t most = std::max<int64_t>(1, chunk_target_bytes / row_bytes), chunks = (rows + most - 1) / most;
    return std::max<int64_t>(1, (rows + chunks - 1) / std::max<int64_t>(1, chunks));
}

void sync_path(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = descriptor >= 0 && fsync(descriptor) == 0;
    const int code = errno;
    if (descriptor >= 0) ::close(descriptor);
    if (!synced)
        fail(Exit::io, path + ": cannot be written to the end (" + std::strerror(code) + "); is the disk full?");
}

/// The folder the data set grows in; removed with everything in it unless it was moved to its
/// destination.
class Partial {
public:
    explicit Partial(const fs::path& dir) : dir_(dir), partial_(dir.string() + ".partial-" + std::to_string(getpid())) {
        std::error_code error;
        fs::remove_all(partial_, error);
        fs::create_directories(partial_, error);
        if (error) fail(Exit::io, partial_.string() + ": cannot be created (" + error.message() + "); check --to");
    }
    ~Partial() {
        std::error_code ignored;
        fs::remove_all(partial_, ignored);
    }
    Partial(const Partial&) = delete;
    Partial& operator=(const Partial&) = delete;

    std::string file(const std::string& name) const { return (partial_ / name).string(); }

    void move_into_place() {
        sync_path(partial_);
        std::error_code error;
        const fs::path old = dir_.string() + ".replaced-" + std::to_string(getpid());
        if (fs::exists(dir_)) fs::rename(dir_, old, error);
        if (!error) fs::rename(partial_, dir_, error);
        if (error) fail(Exit::io, dir_.string() + ": cannot be put in place (" + error.message() + ")");
        fs::remove_all(old, error);
        sync_path(dir_.has_parent_path() ? dir_.parent_path().string() : ".");
    }

private:
    fs::path dir_, partial_;
};

void write_attributes(hid_t file, const Source& source, const Split& split, int shard, int shards, int64_t images,
                      const PixelStatistics& statistics) {
    h5::set_checked_attribute(file, "format", format_of(split.type));
    h5::set_attribute(file, "version", int64_t(1));
    h5::set_checked_attribute(file, "split", split.name);
    h5::set_attribute(file, "shard", int64_t(shard));
    h5::set_attribute(file, "shards", int64_t(shards));
    h5::set_attribute(file, "images", images);
    h5::set_attribute(file, "classes", int64_t(source.class_names.size()));
    h5::set_checked_attribute(file, "class_names", source.class_names);
    h5::set_attribute(file, "mean", statistics.mean);
    h5::set_attribute(file, "stddev", statistics.stddev);
    h5::set_checked_attribute(file, "source", source.files);
    h5::set_checked_attribute(file, "source_sha256", source.sha256);
    h5::set_checked_attribute(file, "source_checksum", source.checksum);
    h5::set_checked_attribute(file, "converter", std::string("convoy ") + version + " " + commit());
}

/// Writes rows [first, last) of `split` as one shard.
void write_shard(const std::string& path, const Source& source, const Split& split, int shard, int shards,
                 const PixelStatistics& statistics) {
    const int64_t first = split.images * shard / shards, last = split.images * (shard + 1) / shards,
                  rows = last - first;
    const int64_t chunk = rows_per_chunk(rows, split.image_bytes());
    h5::Handle file = h5::create(path);
    write_attributes(file, source, split, shard, shards, rows, statistics);
    {
        const auto n = hsize_t(rows), h = hsize_t(split.height), w = hsize_t(split.width), c = hsize_t(split.channels);
        const h5::Handle images =
            h5::create_dataset(file, "/images", stored_type(split.type), {n, h, w, c}, {hsize_t(chunk), h, w, c}, path);
        const h5::Handle labels =
            h5::create_dataset(file, "/labels", H5T_STD_I32LE, {n}, {hsize_t(rows_per_chunk(rows, 4))}, path);
        const bool vectors = split.type == DType::f32;
        h5::set_checked_attribute(images, "long_name",
                                  vectors ? "values [vector, height, width, channel], taken as they are"
                                          : "pixels [image, height, width, channel], 0 to 255");
        h5::set_checked_attribute(labels, "long_name", "class of each image, an index into class_names");
        std::vector<uint8_t> pixels(size_t(chunk * split.image_bytes()));
        std::vector<int32_t> classes(static_cast<size_t>(chunk));
        for (int64_t row = 0; row < rows; row += chunk) {
            const int64_t count = std::min(chunk, rows - row);
            split.read(first + row, count, pixels.data(), classes.data());
            h5::write_rows(images, native_type(split.type), hsize_t(row), hsize_t(count), pixels.data(), path);
            h5::write_rows(labels, H5T_NATIVE_INT32, hsize_t(row), hsize_t(count), classes.data(), path);
        }
    }
    if (split.type == DType::u8) write_pictures(file, path);
    h5::close(std::move(file), path);
    sync_path(path);
}

void write_manifest(const std::string& path, const std::vector<ManifestEntry>& entries) {
    nlohmann::ordered_json json{
        {"format", "convoy-manifest"}, {"version", 1}, {"shards", nlohmann::ordered_json::array()}};
    for (const ManifestEntry& entry : entries)
        json["shards"].push_back({{"file", entry.file},
                                  {"split", entry.split},
                                  {"images", entry.images},
                                  {"bytes", entry.bytes},
                                  {"sha256", entry.sha256}});
    std::ofstream out(path, std::ios::binary);
    out << json.dump(2) << '\n';
    out.close();
    if (!out) fail(Exit::io, path + ": cannot be written; is the disk full?");
    sync_path(path);
}

}  // namespace

void check_destination(const std::string& dir, bool force) {
    std::error_code error;
    if (!fs::exists(dir, error)) return;
    fs::directory_iterator entries(dir, error);
    if (error) fail(Exit::usage, dir + ": exists and is not a readable folder; choose another --to");
    for (const fs::directory_entry& entry : entries) {
        std::string split, name = entry.path().filename();
        int shard = 0, shards = 0;
        if (!force)
            fail(Exit::usage, dir + ": is not empty; choose another --to, or replace the data set there with --force");
        if (name != "manifest.json" && !parse_shard_name(name, split, shard, shards))
            fail(Exit::usage,
                 dir + ": holds " + name +
                     ", which is not part of a data set; --force does not delete that, choose another --to");
    }
}

PixelStatistics pixel_statistics(const Split& split) {
    const auto channels = static_cast<size_t>(split.channels);
    if (split.type == DType::f32) return {std::vector<double>(channels, 0), std::vector<double>(channels, 1)};
    std::vector<int64_t> count(channels * 256, 0);
    const int64_t step = std::max<int64_t>(1, chunk_target_bytes / split.image_bytes());
    std::vector<uint8_t> pixels(size_t(step * split.image_bytes()));
    std::vector<int32_t> labels(static_cast<size_t>(step));
    for (int64_t row = 0; row < split.images; row += step) {
        const int64_t rows = std::min(step, split.images - row);
        split.read(row, rows, pixels.data(), labels.data());
        const size_t bytes = size_t(rows * split.image_bytes());
        for (size_t i = 0; i < bytes; i += channels)
            for (size_t c = 0; c < channels; ++c) ++count[c * 256 + pixels[i + c]];
    }
    PixelStatistics result;
    const double total = double(split.images) * split.height * split.width;
    for (size_t c = 0; c < channels; ++c) {
        double mean = 0, variance = 0;
        for (int value = 0; value < 256; ++value) mean += double(count[c * 256 + size_t(value)]) * value / total;
        for (int value = 0; value < 256; ++value)
            variance += double(count[c * 256 + size_t(value)]) * (value - mean) * (value - mean) / total;
        result.mean.push_back(mean / 255);
        result.stddev.push_back(std::sqrt(variance) / 255);
    }
    return result;
}

void write_data_set(const Source& source, const std::string& dir, int train_shards, bool force) {
    fs::path destination = fs::path(dir).lexically_normal();
    if (!destination.has_filename()) destination = destination.parent_path();  // "data/" means "data"
    if (destination.empty() || destination.filename() == "." || destination.filename() == "..")
        fail(Exit::usage, "'" + dir + "' cannot be replaced by a data set; give --to a folder of its own");
    require(!source.splits.empty() && source.splits[0].name == "train", "the training split comes first");
    if (train_shards < 1 || train_shards > 99'999 || train_shards > source.splits[0].images)
        fail(Exit::usage, "--shards " + std::to_string(train_shards) +
                              ": allowed is 1 to the number of training images (" +
                              std::to_string(source.splits[0].images) + "), at most 99999");
    check_destination(destination, force);
    Partial partial(destination);
    const PixelStatistics statistics = pixel_statistics(source.splits[0]);
    std::vector<ManifestEntry> manifest;
    for (const Split& split : source.splits) {
        const int shards = split.name == "train" ? train_shards : 1;
        for (int shard = 0; shard < shards; ++shard) {
            const std::string name = shard_name(split.name, shard, shards), path = partial.file(name);
            write_shard(path, source, split, shard, shards, statistics);
            manifest.push_back({name, split.name, split.images * (shard + 1) / shards - split.images * shard / shards,
                                int64_t(fs::file_size(path)), digest_of_file(Digest::Kind::sha256, path)});
        }
    }
    write_manifest(partial.file("manifest.json"), manifest);
    partial.move_into_place();
}

}  // namespace convoy
