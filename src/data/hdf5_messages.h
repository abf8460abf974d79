// Parts of object headers that stand alone: extents, types and attributes.
#pragma once
#include <vector>

#include "data/hdf5_blocks.h"

namespace convoy::h5 {

struct RawExtent {
    std::vector<uint64_t> dims, most;  ///< now, and at most (no_address: no limit)
    uint64_t count = 0;                ///< elements; 2^62: at least as many
};

/// Each takes what it reads and leaves the rest. All throw Unfit.
RawExtent take_extent(Fields&);
/// Returns the bytes of an element. Types are numbers and texts, and those of dimension scales
/// (compounds and sequences of references) and of h5py's Booleans (enumerations).
uint64_t take_type(Fields&);
void check_attribute(Fields);

}  // namespace convoy::h5
