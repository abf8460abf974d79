// Makes a good HDF5 file hostile; bytes choose the edits. When no bytes are left, there are no
// further edits.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace convoy::test {

/// Edits the file at `path`: replaces up to seven objects, then changes up to three bytes and
/// perhaps cuts off the end.
void make_hostile(const std::string& path, std::span<const uint8_t> choices);

/// Makes a file hostile by one of the four functions below: kind 0 to 3.
void make_hostile_of_kind(size_t kind, const std::string& path, std::span<const uint8_t> choices);

/// Replaces chunks of data sets by any number of stored bytes, with any filters skipped; their
/// Fletcher-32 may be right.
void make_chunks_hostile(const std::string& path, std::span<const uint8_t> choices);

/// Replaces data sets and attributes by integers and floats whose bits lie anywhere within them.
/// move_bits_of_types() also moves bits beyond them, which HDF5's API refuses.
void make_types_hostile(const std::string& path, std::span<const uint8_t> choices);
void move_bits_of_types(const std::string& path, std::span<const uint8_t> choices);

/// Copies everything into a file of the oldest format, then changes up to six bytes.
void make_old_hostile(const std::string& path, std::span<const uint8_t> choices);

/// Changes up to six numbers of the file's structure, and recomputes their checksums.
void make_structure_hostile(const std::string& path, std::span<const uint8_t> choices);

/// A number in the structure: the `which`-th block of this name, from 0.
struct StructureChange {
    std::string block;
    size_t which, at, width;
    uint64_t value;
};
/// Makes one change, and computes the checksums again.
void change_structure(const std::string& path, const StructureChange&);

}  // namespace convoy::test
