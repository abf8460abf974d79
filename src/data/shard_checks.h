// Checks the claims of a shard, for the readers of shards.
#pragma once
#include <cstdint>
#include <string>

#include "base/tensor.h"
#include "data/hdf5.h"

namespace convoy {

// Upper limits of a data set. Within them, no product of extents overflows int64_t.
constexpr int64_t max_side = 4096, max_channels = 16, max_classes = 1'000'000, max_images = 1'000'000'000;

h5::Element stored_as(DType);

constexpr const char* was_it_moved = "was the data set moved or removed?";  ///< advice for a file that is gone
/// Returns the text of DIR/manifest.json.
std::string manifest_text(const std::string& dir);

// The checks throw Exit::bad_input naming `path`.
/// Returns `value`, which must lie within [low, high].
int checked_range(int64_t value, int64_t low, int64_t high, const std::string& what, const std::string& path);
/// Returns the extent of a data set that must have that rank and type.
h5::Extent checked_extent(hid_t file, const std::string& name, size_t rank, h5::Element type, const std::string& path);
/// Throws if the file cannot hold the `bytes` that data set `name` claims.
void check_stored(const h5::Extent& extent, uint64_t bytes, const std::string& name, const std::string& path);
/// Throws if a float32 vector holds a number that is not finite. `vectors`: `rows` rows of `bytes`
/// each. `first`: index of the first row in the shard, for the message.
void check_finite(const uint8_t* vectors, int64_t first, int64_t rows, size_t bytes, const std::string& path);

}  // namespace convoy
