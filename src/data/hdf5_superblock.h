// The first bytes of an HDF5 file in V110 format: its version 3 superblock, as HDF5's format
// specification lays it out. HDF5 gives no access to them.
#pragma once
#include <string>
#include <vector>

namespace convoy::h5 {

/// Writes the checksum of an image's superblock again. H5Fget_file_image clears the flag "open for
/// writing" but leaves the checksum as it was, so that the file could not be opened.
void seal_superblock(std::vector<unsigned char>& bytes);

/// Whether a program that opened the file for writing has left its mark there and not taken it away
/// yet: it has the file open, or it was killed. False for a superblock that does not match its
/// checksum. Throws Inaccessible if the file cannot be opened or read.
bool is_open_for_writing(const std::string& path);

}  // namespace convoy::h5
