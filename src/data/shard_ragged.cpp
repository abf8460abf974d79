#include "data/shard_ragged.h"

#include <algorithm>
#include <cstring>

#include "base/shorten.h"
#include "data/shard_checks.h"

namespace convoy {
namespace {

// Files are read in groups of about this many bytes.
constexpr int64_t group_bytes = 16 << 20;

[[noreturn]] void contradicts(const std::string& path, int64_t row, const std::string& what) {
    fail(Exit::bad_input, path + ": row " + std::to_string(row) + " " + what + "; convert the data set again");
}

template <class T>
std::vector<T> column(hid_t file, const std::string& name, h5::Element type, hid_t native, const std::string& path) {
    const h5::Extent extent = checked_extent(file, name, 1, type, path);
    const int64_t count = int64_t(std::min<hsize_t>(extent.dims[0], INT64_MAX));
    checked_range(count, 1, max_images + 1, "the length of " + name, path);
    check_stored(extent, uint64_t(count) * sizeof(T), name, path);
    std::vector<T> values(static_cast<size_t>(count));
    h5::read_rows(h5::open_dataset(file, name, path), native, 0, hsize_t(count), values.data(), path);
    return values;
}

}  // namespace

RaggedTable::RaggedTable(hid_t file, const std::string& codec, const std::string& path)
    : path_(path),
      files_(codec == "jpeg"),
      offsets_(column<int64_t>(file, "/offset", h5::Element::i64, H5T_NATIVE_INT64, path)),
      heights_(column<int32_t>(file, "/height", stored_as(DType::i32), H5T_NATIVE_INT32, path)),
      widths_(column<int32_t>(file, "/width", stored_as(DType::i32), H5T_NATIVE_INT32, path)) {
    if (codec != "raw" && codec != "jpeg")
        fail(Exit::bad_input,
             path + ": its codec is '" + shortened(codec) + "', allowed is raw or jpeg; convert it again");
    if (widths_.size() != heights_.size() || offsets_.size() != heights_.size() + 1)
        fail(Exit::bad_input, path + ": /height, /width and /offset differ in their number of rows; convert it again");
    const h5::Extent pixels = checked_extent(file, "/pixels", 1, stored_as(DType::u8), path);
    if (offsets_[0] != 0 || offsets_.back() < 0 || hsize_t(offsets_.back()) != pixels.dims[0])
        fail(Exit::bad_input, path + ": /offset does not begin and end where /pixels does; convert it again");
    check_stored(pixels, uint64_t(offsets_.back()), "/pixels", path);
    decoded_.assign(1, 0);
    for (int64_t row = 0; row < rows(); ++row) {
        const size_t i = size_t(row);
        if (offsets_[i + 1] < offsets_[i] || offsets_[i + 1] > offsets_.back())
            contradicts(path, row,
                        "ends at byte " + std::to_string(offsets_[i + 1]) + " of /pixels, which is before its " +
                            "beginning, or after the end of /pixels");
        const int64_t stored = offsets_[i + 1] - offsets_[i], h = heights_[i], w = widths_[i];
        if (h < 1 || w < 1 || h > most_image_side || w > most_image_side || h * w > most_image_pixels)
            contradicts(path, row, "claims " + std::to_string(h) + "x" + std::to_string(w) + " pixels");
        if (files_ ? stored < 1 || h * w * 3 > stored * most_pixel_bytes_a_byte : stored != h * w * 3)
            contradicts(path, row,
                        "claims " + std::to_string(h) + "x" + std::to_string(w) + " pixels in " +
                            std::to_string(stored) + " bytes");
        decoded_.push_back(decoded_.back() + h * w * 3);
    }
}

void RaggedTable::decode(int64_t first, int64_t count, const uint8_t* files, RgbImage& image, uint8_t* to) const {
    for (int64_t row = first; row < first + count; ++row) {
        const size_t bytes = size_t(offset(row + 1) - offset(row));
        try {
            decode_image({files, bytes}, image);
        } catch (const BadImage& bad) {
            contradicts(path_, row, std::string("of /pixels cannot be decoded: ") + bad.what());
        }
        if (image.height != height(row) || image.width != width(row))
            contradicts(path_, row,
                        "is a file of " + std::to_string(image.height) + "x" + std::to_string(image.width) +
                            " pixels, and claims another size");
        std::memcpy(to, image.pixels.data(), image.pixels.size());
        files += bytes;
        to += image.pixels.size();
    }
}

RaggedRows::RaggedRows(hid_t file, const std::string& codec, const std::string& path)
    : RaggedRows(file, std::make_shared<const RaggedTable>(file, codec, path), path) {}

RaggedRows::RaggedRows(hid_t file, std::shared_ptr<const RaggedTable> table, const std::string& path)
    : path_(path), table_(std::move(table)), pixels_(h5::open_dataset(file, "/pixels", path)) {}

void RaggedRows::read(int64_t first, int64_t count, uint8_t* to) const {
    if (table_->holds_files()) return read_files(first, count, to);
    const int64_t from = table_->offset(first), end = table_->offset(first + count);
    h5::read_rows(pixels_, H5T_NATIVE_UINT8, hsize_t(from), hsize_t(end - from), to, path_);
}

void RaggedRows::read_files(int64_t first, int64_t count, uint8_t* to) const {
    std::vector<uint8_t> files;
    RgbImage image;
    for (int64_t row = first, end; row < first + count; row = end) {
        const int64_t from = table_->offset(row);
        for (end = row + 1; end < first + count && table_->offset(end + 1) - from <= group_bytes;) ++end;
        files.resize(size_t(table_->offset(end) - from));
        h5::read_rows(pixels_, H5T_NATIVE_UINT8, hsize_t(from), files.size(), files.data(), path_);
        table_->decode(row, end - row, files.data(), image, to);
        to += table_->decoded_before(end) - table_->decoded_before(row);
    }
}

}  // namespace convoy
