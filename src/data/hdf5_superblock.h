// The first bytes of an HDF5 file in V110 format: its version 3 superblock, as HDF5's format
// specification lays it out. HDF5 gives no access to them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/input_bytes.h"

namespace convoy::h5 {

/// Advice for a file of an older format.
constexpr const char* write_as_v110 = "write it again, as h5py does with libver='v110' (input/README.md)";

/// Refuses a file whose superblock is not as Convoy writes it, before HDF5 opens the file: an older
/// version, an extension, or a user block. Returns the address of the root group. Returns nothing
/// if the superblock does not match its checksum; HDF5 then refuses the file. Throws
/// Exit::bad_input. Throws Inaccessible (base/file_error.h) if the file cannot be read, or if it is
/// marked as open for writing. A program has it open then, or was killed.
std::optional<uint64_t> check_superblock(const InputBytes& file);

/// Updates the checksum of an image's superblock. H5Fget_file_image clears the flag "open for
/// writing" but keeps the old checksum, so that the file could not be opened.
void seal_superblock(std::vector<unsigned char>& bytes);

}  // namespace convoy::h5
