// Where HDF5 keeps the chunks of a data set, so that they can be read without it: any number of
// threads at once, and past a file system that hangs while HDF5's lock is needed elsewhere.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/hdf5.h"

namespace convoy {

/// The places of the chunks of a data set. Its chunks are whole rows, so that they hold its bytes
/// one after the other. In the file, fletcher32_bytes follow each; the last chunk is stored whole,
/// however little of it is used.
struct ChunkPlaces {
    size_t bytes = 0;                 ///< of one chunk, without its checksum
    int64_t rows = 0;                 ///< of one chunk
    std::vector<uint64_t> addresses;  ///< [chunks], bytes from the beginning of the file
};

/// Returns the places of data set `name`, which checked_extent took, in an open file. Throws
/// Exit::bad_input if its elements are not `stored` as they are in memory, its chunks not whole
/// rows, a chunk is missing, of another size than it must have or outside the file. HDF5 before
/// 1.14 takes time that grows with the square of the number of chunks; more than 32768 are refused
/// there.
ChunkPlaces locate_chunks(hid_t file, const std::string& name, hid_t stored, const std::string& path);

}  // namespace convoy
