// Lets HDF5 read a file that is already open. HDF5 itself opens files by path, and a file may be
// exchanged between its check and HDF5's open.
#pragma once
#include <string>

#include "data/hdf5.h"

namespace convoy::h5 {

/// Opens the file of descriptor `fd` read-only. HDF5 reads it through a copy of `fd`; `path` is
/// used only as its name. Throws what h5::open() throws.
Handle open_descriptor(int fd, const std::string& path);

}  // namespace convoy::h5
