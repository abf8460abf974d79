// Makes a good HDF5 file hostile, as bytes choose. No bytes left: no further edits.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace convoy::test {

/// Edits the file at `path`: up to seven objects replaced, then up to three bytes changed and
/// perhaps the end cut off.
void make_hostile(const std::string& path, std::span<const uint8_t> choices);

/// Kind 0 to 3: one of the four below. HDF5 1.10.8 and 1.14.5 crash within minutes where structure
/// is changed under right checksums, and Convoy cannot see it before. Kind 3 is therefore kind 2
/// unless CONVOY_FUZZ_STRUCTURE is set.
void make_hostile_of_kind(size_t kind, const std::string& path, std::span<const uint8_t> choices);

/// Replaces chunks of data sets by stored bytes of any number, with any filters skipped; their
/// Fletcher-32 may be right.
void make_chunks_hostile(const std::string& path, std::span<const uint8_t> choices);

/// Replaces data sets and attributes by integers and floats whose bits lie anywhere in them, or,
/// as HDF5's API refuses, beyond them.
void make_types_hostile(const std::string& path, std::span<const uint8_t> choices);
void move_bits_of_types(const std::string& path, std::span<const uint8_t> choices);

/// Copies everything into a file of the oldest format, then changes up to six bytes.
void make_old_hostile(const std::string& path, std::span<const uint8_t> choices);

/// Changes up to six numbers of the file's structure, and computes the checksums of that again.
void make_structure_hostile(const std::string& path, std::span<const uint8_t> choices);

}  // namespace convoy::test
