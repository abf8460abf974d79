#include "data/shard_checks.h"

#include <algorithm>
#include <cstring>

#include "base/input_file.h"
#include "data/shard_format.h"

namespace convoy {
namespace {

constexpr hsize_t max_chunk_bytes = hsize_t(512) << 20;

/// Of float32 numbers [bytes / 4]. Looks at all of them, because such a loop is vectorised.
bool all_finite(const uint8_t* numbers, size_t bytes) {
    constexpr uint32_t exponent = 0x7f800000;  // of infinities and of what is no number
    uint32_t wrong = 0;
    for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) {
        uint32_t bits = 0;
        std::memcpy(&bits, numbers + at, sizeof bits);
        wrong |= uint32_t((bits & exponent) == exponent);
    }
    return wrong == 0;
}

}  // namespace

int checked_range(int64_t value, int64_t low, int64_t high, const std::string& what, const std::string& path) {
    if (value < low || value > high)
        fail(Exit::bad_input, path + ": " + what + " is " + std::to_string(value) + ", allowed is " +
                                  std::to_string(low) + " to " + std::to_string(high) + "; convert the data set again");
    return int(value);
}

StoredType stored_as(DType type) {
    const H5T_class_t type_class = type == DType::f32 ? H5T_FLOAT : H5T_INTEGER;
    return {type_class, size_of(type), type == DType::i32, stored_name(type)};
}

h5::Extent checked_extent(hid_t file, const std::string& name, size_t rank, const StoredType& type,
                          const std::string& path) {
    const h5::Extent extent = h5::extent(file, name, path);
    const std::string set = path + ": " + name;
    const bool fits =
        extent.type_class == type.type_class && (type.type_class == H5T_FLOAT || extent.is_signed == type.is_signed);
    if (extent.dims.size() != rank || !fits || extent.type_size != type.bytes)
        fail(Exit::bad_input, set + " is not of rank " + std::to_string(rank) + " and type " + type.name +
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
    const uint64_t size = size_of_input(path, was_it_moved);
    if (size < bytes || extent.stored_bytes < bytes)
        fail(Exit::bad_input, path + ": " + name + " claims " + std::to_string(bytes) + " bytes, but the file holds " +
                                  std::to_string(std::min<uint64_t>(size, extent.stored_bytes)) +
                                  "; convert the data set again");
}

void check_finite(const uint8_t* vectors, int64_t first, int64_t rows, size_t bytes, const std::string& path) {
    if (all_finite(vectors, size_t(rows) * bytes)) return;
    int64_t row = 0;
    while (all_finite(vectors + size_t(row) * bytes, bytes)) ++row;
    fail(Exit::bad_input, path + ": row " + std::to_string(first + row) +
                              " of /images holds a number that is not finite; convert the data set again");
}

}  // namespace convoy
