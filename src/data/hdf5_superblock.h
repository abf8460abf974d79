// The first bytes of an HDF5 file in V110 format: its version 3 superblock, as HDF5's format
// specification lays it out. HDF5 gives no access to them.
#pragma once
#include <string>
#include <vector>

namespace convoy::h5 {

/// Advice for a file of an older format.
constexpr const char* write_as_v110 = "write it again, as h5py does with libver='v110' (input/README.md)";

/// Refuses a file whose superblock is not what Convoy writes, before HDF5 opens it: of an older
/// version, with an extension or a user block, or with a root group of an older version. One that
/// does not match its checksum is left to HDF5. Throws Exit::bad_input; Inaccessible if the file
/// cannot be opened or read.
void check_superblock(const std::string& path);

/// Writes the checksum of an image's superblock again. H5Fget_file_image clears the flag "open for
/// writing" but leaves the checksum as it was, so that the file could not be opened.
void seal_superblock(std::vector<unsigned char>& bytes);

/// Whether a program that opened the file for writing has left its mark there and not taken it away
/// yet: it has the file open, or it was killed. False for a superblock that does not match its
/// checksum. Throws Inaccessible if the file cannot be opened or read.
bool is_open_for_writing(const std::string& path);

}  // namespace convoy::h5
