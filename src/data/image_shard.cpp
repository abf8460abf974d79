#include "data/image_shard.h"

#include <algorithm>

#include "data/shard_format.h"
#include "data/shard_pictures.h"

namespace convoy {
namespace {

// Small, because reading one image reads its whole chunk.
constexpr hsize_t ragged_chunk_bytes = 2 << 20;
// A chunk of equally large images should fit in HDF5's cache of 1 MiB.
constexpr hsize_t fixed_chunk_bytes = 1 << 20;
constexpr hsize_t table_chunk_rows = 1 << 16;

template <class T>
void write_column(hid_t file, const char* name, hid_t stored, hid_t native, const std::vector<T>& values,
                  const char* meaning, const std::string& path) {
    const h5::Handle set = h5::create_dataset(file, name, stored, {values.size()}, {table_chunk_rows}, path);
    h5::set_checked_attribute(set, "long_name", std::string(meaning));
    h5::write_rows(set, native, 0, values.size(), values.data(), path);
}

}  // namespace

ImageShardWriter::ImageShardWriter(const FilePlace& place, ImageLayout layout, int height, int width)
    : place_(place), layout_(layout), file_(h5::create(place)) {
    if (layout == ImageLayout::fixed) {
        const hsize_t h = hsize_t(height), w = hsize_t(width);
        pixels_.emplace(file_, "/images", std::vector<hsize_t>{h, w, 3},
                        std::max<hsize_t>(1, fixed_chunk_bytes / (h * w * 3)), place.shown);
    } else {
        pixels_.emplace(file_, "/pixels", std::vector<hsize_t>{}, ragged_chunk_bytes, place.shown);
    }
}

void ImageShardWriter::add(const RgbImage& image, FileBytes file, int32_t label) {
    labels_.push_back(label);
    if (layout_ == ImageLayout::fixed) return pixels_->append(image.pixels.data(), 1);
    heights_.push_back(image.height);
    widths_.push_back(image.width);
    const FileBytes row = layout_ == ImageLayout::jpeg ? file : FileBytes(image.pixels);
    pixels_->append(row.data(), row.size());
    offsets_.push_back(offsets_.back() + int64_t(row.size()));
}

void ImageShardWriter::write_rows() {
    const auto table = [&](const char* name, const std::vector<int32_t>& values, const char* meaning) {
        write_column(file_, name, H5T_STD_I32LE, H5T_NATIVE_INT32, values, meaning, place_.shown);
    };
    const bool fixed = layout_ == ImageLayout::fixed;
    pixels_->finish();
    h5::set_checked_attribute(
        pixels_->id(), "long_name",
        std::string(fixed                         ? "pixels [image, height, width, channel], 0 to 255"
                    : layout_ == ImageLayout::raw ? "pixels [height, width, channel] of each image, 0 to 255"
                                                  : "each image's file, as it was"));
    pixels_.reset();
    table("/labels", labels_, "class of each image, an index into class_names");
    if (fixed) return write_pictures(file_, place_.shown);
    table("/height", heights_, "of each image, decoded");
    table("/width", widths_, "of each image, decoded");
    write_column(file_, "/offset", H5T_STD_I64LE, H5T_NATIVE_INT64, offsets_,
                 "where each image begins in /pixels; at the end, where the last one ends", place_.shown);
    h5::set_checked_attribute(file_, "codec", std::string(layout_ == ImageLayout::raw ? "raw" : "jpeg"));
}

void ImageShardWriter::finish(ShardTitle title, const Source& source, const std::function<void(hid_t)>& describe) {
    title.format = layout_ == ImageLayout::fixed ? format_of(DType::u8) : ragged_format;
    title.images = rows();
    write_rows();
    write_attributes(file_, title, source, nullptr);
    describe(file_);
    h5::close(std::move(file_), place_.shown);
    sync_path(place_);
}

void seal_shard(const FilePlace& place, const PixelStatistics& statistics) {
    const h5::Handle access = h5::access_without_lock();
    h5::Handle file(H5Fopen(place.opened.c_str(), H5F_ACC_RDWR, access));
    if (!file.valid())
        fail(Exit::io, place.shown + ": cannot be completed" + h5::because() + "; check its permissions");
    write_statistics(file, statistics);
    h5::close(std::move(file), place.shown);
    sync_path(place);
}

}  // namespace convoy
