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

/// Refuses a file whose superblock is not what Convoy writes, before HDF5 opens it: of an older
/// version, or with an extension or a user block. Returns the address of the root group; none if
/// the superblock does not match its checksum, so that HDF5 refuses it. Throws Exit::bad_input;
/// Inaccessible (base/file_error.h) if the file cannot be read, or if a program that opened it for
/// writing has left its mark there: it has the file open, or it was killed.
std::optional<uint64_t> check_superblock(const InputBytes& file);

/// Writes the checksum of an image's superblock again. H5Fget_file_image clears the flag "open for
/// writing" but leaves the checksum as it was, so that the file could not be opened.
void seal_superblock(std::vector<unsigned char>& bytes);

}  // namespace convoy::h5
