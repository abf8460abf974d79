#include "data/shard_checks.h"

#include <algorithm>
#include <cstring>

#include "base/input_file.h"
#include "data/shard_format.h"

namespace convoy {
namespace {

/// True if all float32 numbers [bytes / 4] are finite. Has no early exit, so that the loop is
/// vectorised.
bool all_finite(const uint8_t* numbers, size_t bytes) {
    constexpr uint32_t exponent = 0x7f800000;  // all these bits are set in infinities and NaN
    uint32_t wrong = 0;
    for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) {
        uint32_t bits = 0;
        std::memcpy(&bits, numbers + at, sizeof bits);
        wrong |= uint32_t((bits & exponent) == exponent);
    }
    return wrong == 0;
}

const char* name_of(h5::Element type) {
    switch (type) {
        case h5::Element::u8: return stored_name(DType::u8);
        case h5::Element::i32: return stored_name(DType::i32);
        case h5::Element::f32: return stored_name(DType::f32);
        default: return "int64";
    }
}

}  // namespace

int checked_range(int64_t value, int64_t low, int64_t high, const std::string& what, const std::string& path) {
    if (value < low || value > high)
        fail(Exit::bad_input, path + ": " + what + " is " + std::to_string(value) + ", allowed is " +
                                  std::to_string(low) + " to " + std::to_string(high) + "; convert the data set again");
    return int(value);
}

h5::Element stored_as(DType type) {
    if (type == DType::i32) return h5::Element::i32;
    return type == DType::f32 ? h5::Element::f32 : h5::Element::u8;
}

h5::Extent checked_extent(hid_t file, const std::string& name, size_t rank, h5::Element type, const std::string& path) {
    const h5::Extent extent = h5::extent(file, name, path);
    if (extent.dims.size() != rank || extent.element != type)
        fail(Exit::bad_input, path + ": " + name + " is not of rank " + std::to_string(rank) + " and type " +
                                  name_of(type) + "; was this file made by 'convoy convert'?");
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
