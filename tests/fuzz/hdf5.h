// Makes a good HDF5 file hostile, as bytes choose.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace convoy::test {

/// Edits the file at `path`: up to seven objects replaced, then up to three bytes changed and
/// perhaps the end cut off. No bytes left: no further edits.
void make_hostile(const std::string& path, std::span<const uint8_t> choices);

}  // namespace convoy::test
