// Of what a shard claims, what is believed: for the readers of shards.
#pragma once
#include <cstdint>
#include <string>

#include "base/tensor.h"
#include "data/hdf5.h"

namespace convoy {

// No honest data set is beyond these; with them, no product of extents overflows int64_t.
constexpr int64_t max_side = 4096, max_channels = 16, max_classes = 1'000'000, max_images = 1'000'000'000;

h5::Element stored_as(DType);

constexpr const char* was_it_moved = "was the data set moved or removed?";  ///< advice for a file that is gone
/// The text of DIR/manifest.json.
std::string manifest_text(const std::string& dir);

// Each throws Exit::bad_input naming `path`.
/// `value`, if it is within [low, high].
int checked_range(int64_t value, int64_t low, int64_t high, const std::string& what, const std::string& path);
/// The extent of a data set of that rank and type.
h5::Extent checked_extent(hid_t file, const std::string& name, size_t rank, h5::Element type, const std::string& path);
/// If the file cannot hold the `bytes` that data set `name` claims.
void check_stored(const h5::Extent& extent, uint64_t bytes, const std::string& name, const std::string& path);
/// If one of these float32 vectors holds a number that is not finite: `rows` of `bytes` each, the
/// first of which is row `first` of the shard.
void check_finite(const uint8_t* vectors, int64_t first, int64_t rows, size_t bytes, const std::string& path);

}  // namespace convoy
