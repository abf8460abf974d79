// Where HDF5 notes the places of a data set's chunks.
#pragma once
#include <vector>

#include "data/hdf5_blocks.h"

namespace convoy::h5 {

/// How chunks of one data set are found, if each is filtered.
struct ChunkIndex {
    unsigned kind = 0;              ///< 1 one chunk, 3 fixed array, 4 extensible array, 5 B-tree
    uint64_t address = no_address;  ///< of kind 1: of the chunk
    size_t rank = 0;                ///< of the data set
    uint64_t chunk_bytes = 0;       ///< of a chunk, unfiltered
    uint64_t chunks = 0;            ///< at most, where that is limited
    uint64_t stored_bytes = 0;      ///< of kind 1: of the chunk in the file
};

/// Checks the blocks of an index that there is, and takes the bytes of each chunk: no two chunks
/// may lie in the same ones. Chunks are not read, and may have a wrong length. Throws Unfit.
void check_chunk_index(Blocks&, const ChunkIndex&);

}  // namespace convoy::h5
