// The index in which HDF5 records the places of a data set's chunks.
#pragma once
#include <vector>

#include "data/hdf5_blocks.h"

namespace convoy::h5 {

/// Describes the index of one data set, whose chunks all have a filter.
struct ChunkIndex {
    unsigned kind = 0;              ///< 1 one chunk, 3 fixed array, 4 extensible array, 5 B-tree
    uint64_t address = no_address;  ///< of the index; kind 1: of the chunk itself
    size_t rank = 0;                ///< number of dimensions of the data set
    uint64_t chunk_bytes = 0;       ///< bytes of a chunk, without its checksum
    uint64_t chunks = 0;            ///< largest number of chunks, if there is a limit
    uint64_t stored_bytes = 0;      ///< kind 1: bytes of the chunk in the file
};

/// Checks the blocks of an index, and records the bytes of each chunk, because no two chunks may
/// overlap. Does not check that chunks have their full size (check_stored_chunks()). Throws Unfit.
void check_chunk_index(Blocks&, const ChunkIndex&);

}  // namespace convoy::h5
