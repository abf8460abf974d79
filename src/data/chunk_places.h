// Finds where HDF5 keeps the chunks of a data set, so that they can be read without HDF5. Any
// number of threads can then read at once. A thread that waits for a file system does not hold
// HDF5's lock.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/hdf5.h"

namespace convoy {

/// The places of the chunks of a data set. Each chunk consists of whole rows, so chunks hold the
/// data set's bytes one after the other. In the file, a checksum of fletcher32_bytes follows each
/// chunk. The last chunk has full size, even if little of it is used.
struct ChunkPlaces {
    size_t bytes = 0;                 ///< of one chunk, without its checksum
    int64_t rows = 0;                 ///< of one chunk
    std::vector<uint64_t> addresses;  ///< [chunks], bytes from the beginning of the file
};

/// Returns the places of the chunks of data set `name`. checked_extent() must have accepted it.
/// Throws Exit::bad_input if the elements do not have the type `stored`, or if chunks are not whole
/// rows. Also throws it for a chunk that is missing, has the wrong size, or lies outside the file.
/// Before HDF5 1.14, the time grows with the square of the number of chunks, so more than 32768 are
/// refused.
ChunkPlaces locate_chunks(hid_t file, const std::string& name, hid_t stored, const std::string& path);

}  // namespace convoy
