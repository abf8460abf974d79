// Writes a data set into a folder next to its destination, and renames it at the end. A failed
// conversion therefore leaves nothing half-written. The same source gives the same bytes, because
// there are no time stamps, and no compression that differs between versions.
#include <algorithm>
#include <filesystem>

#include "base/own_folder.h"
#include "base/text.h"
#include "data/destination.h"
#include "data/digest.h"
#include "data/hdf5_structure.h"
#include "data/shard.h"
#include "data/shard_folder.h"
#include "data/shard_format.h"
#include "data/shard_pictures.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

// HDF5's chunk cache holds 1 MiB. A larger chunk would be read again for every row.
constexpr int64_t chunk_target_bytes = 1 << 20;

/// Returns the rows per chunk: at most as many as fit in the target. Spreads rows evenly over the
/// chunks, because the last one is stored in full size even if little of it is used.
int64_t rows_per_chunk(int64_t rows, int64_t row_bytes) {
    const int64_t most = std::max<int64_t>(1, chunk_target_bytes / row_bytes), chunks = (rows + most - 1) / most;
    return std::max<int64_t>(1, (rows + chunks - 1) / std::max<int64_t>(1, chunks));
}

/// The folder of an unfinished data set. The destructor deletes it unless it was moved to its
/// destination.
class Partial {
public:
    explicit Partial(const Destination& to)
        : to_(to), working_(OwnFolder::unique(to.path().string() + ".partial-", "choose another --to")) {}
    ~Partial() { [[maybe_unused]] const std::error_code ignored = working_.remove_only({"shards"}); }
    Partial(const Partial&) = delete;
    Partial& operator=(const Partial&) = delete;

    const HeldFolder& shards() const {
        working_.check();
        return shards_;
    }

    std::string move_into_place() {
        working_.check();
        return to_.put_in_place(working_, "shards");
    }

private:
    const Destination& to_;
    OwnFolder working_;
    const HeldFolder shards_ = working_.subfolder("shards");
};

/// Writes rows [first, last) of `split` as one shard.
void write_shard(const FilePlace& place, const Source& source, const Split& split, int shard, int shards,
                 const PixelStatistics& statistics) {
    const int64_t first = split.images * shard / shards, last = split.images * (shard + 1) / shards,
                  rows = last - first;
    const int64_t chunk = rows_per_chunk(rows, split.image_bytes());
    const std::string& path = place.shown;
    h5::Handle file = h5::create(place);
    write_attributes(file, {format_of(split.type), split.name, shard, shards, rows}, source, &statistics);
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
    sync_path(place);
}

}  // namespace

PixelStatistics pixel_statistics(const Split& split) {
    const auto channels = static_cast<size_t>(split.channels);
    if (split.type == DType::f32) return {std::vector<double>(channels, 0), std::vector<double>(channels, 1)};
    PixelCounts counts(split.channels);
    const int64_t step = std::max<int64_t>(1, chunk_target_bytes / split.image_bytes());
    std::vector<uint8_t> pixels(size_t(step * split.image_bytes()));
    std::vector<int32_t> labels(static_cast<size_t>(step));
    for (int64_t row = 0; row < split.images; row += step) {
        const int64_t rows = std::min(step, split.images - row);
        split.read(row, rows, pixels.data(), labels.data());
        counts.add(pixels.data(), size_t(rows * split.image_bytes()));
    }
    return counts.statistics();
}

std::string write_data_set(const Source& source, const std::string& dir, int train_shards, bool force) {
    return write_data_set(source, Destination(dir, force), train_shards);
}

std::string write_data_set(const Source& source, const Destination& to, int train_shards) {
    require(!source.splits.empty() && source.splits[0].name == "train", "the training split comes first");
    if (train_shards < 1 || train_shards > 99'999 || train_shards > source.splits[0].images)
        fail(Exit::usage, "--shards " + std::to_string(train_shards) +
                              ": allowed is 1 to the number of training images (" +
                              std::to_string(source.splits[0].images) + "), at most 99999");
    for (const std::string& name : source.class_names) check_class_name(name, "give it another name");
    for (const Split& split : source.splits)
        if (uint64_t(split.image_bytes()) > h5::most_chunk_bytes)
            fail(Exit::usage, formatted("images of %dx%dx%d take %lld bytes each; at most 64 MiB (%llu) are allowed",
                                        split.height, split.width, split.channels, (long long)split.image_bytes(),
                                        (unsigned long long)h5::most_chunk_bytes));
    Partial partial(to);
    const PixelStatistics statistics = pixel_statistics(source.splits[0]);
    std::vector<ManifestEntry> manifest;
    for (const Split& split : source.splits) {
        const int shards = split.name == "train" ? train_shards : 1;
        for (int shard = 0; shard < shards; ++shard) {
            const std::string name = shard_name(split.name, shard, shards);
            const FilePlace file(partial.shards(), name);
            write_shard(file, source, split, shard, shards, statistics);
            manifest.push_back({name, split.name, split.images * (shard + 1) / shards - split.images * shard / shards,
                                int64_t(fs::file_size(file.opened)), digest_of_file(Digest::Kind::sha256, file)});
        }
    }
    write_manifest(partial.shards(), manifest);
    return partial.move_into_place();
}

}  // namespace convoy
