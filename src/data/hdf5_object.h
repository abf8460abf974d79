// Checks the header of an object in an HDF5 file, and the blocks that belong to this object alone.
#pragma once
#include <vector>

#include "data/hdf5_blocks.h"

namespace convoy::h5 {

/// Checks the object at `address`: a group, or a data set in plain chunks with Fletcher-32. Returns
/// the addresses of the objects that a group links to. Throws Unfit.
std::vector<uint64_t> check_object(Blocks&, uint64_t address);

}  // namespace convoy::h5
