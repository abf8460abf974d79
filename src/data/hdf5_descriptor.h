// Lets HDF5 read a file that is open already. HDF5 itself opens files by their paths, and a file
// may be exchanged between its check and that.
#pragma once
#include <string>

#include "data/hdf5.h"

namespace convoy::h5 {

/// Opens the file of descriptor `fd` read-only; HDF5 reads it by a copy of `fd`. `path` is only its
/// name. Throws as h5::open() does.
Handle open_descriptor(int fd, const std::string& path);

}  // namespace convoy::h5
