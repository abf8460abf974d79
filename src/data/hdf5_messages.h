// Reads parts of object headers: extents, types and attributes.
#pragma once
#include <vector>

#include "data/hdf5_blocks.h"

namespace convoy::h5 {

struct RawExtent {
    std::vector<uint64_t> dims, most;  ///< current and largest size; most: no_address if there is no limit
    uint64_t count = 0;                ///< number of elements; 2^62 if there are that many or more
};

/// Each function removes what it reads from the fields. All throw Unfit.
RawExtent take_extent(Fields&);
/// Returns the bytes of an element. Accepts numbers and texts, the types of dimension scales
/// (compounds and sequences of references), and h5py's Booleans (enumerations).
uint64_t take_type(Fields&);
void check_attribute(Fields);

}  // namespace convoy::h5
