// Walks through the structure of an HDF5 file without HDF5. The library trusts numbers that
// contradict one another under right checksums, and reads and writes beyond its buffers. Only the
// structures that Convoy and h5py (libver='v110') give a file are accepted.
#pragma once
#include <cstdint>
#include <string>

#include "data/input_bytes.h"

namespace convoy::h5 {

enum class Objects { opened, all };

/// Walks from the root to every object. Throws Exit::bad_input for a root that is not as Convoy
/// writes it, and for two objects that share bytes; Inaccessible if the file cannot be read. Other
/// objects may be anything as long as HDF5 is not asked for them: check_object_at() comes before.
/// Objects::all: they must be as Convoy writes them, too. Data are not read.
void check_structure(const InputBytes& file, Objects = Objects::opened);
void check_structure(const std::string& path, Objects = Objects::opened);

/// Checks one object, `name`, at `address` of a file that is open as `fd`. Throws Exit::bad_input.
void check_object_at(int fd, uint64_t address, const std::string& name, const std::string& path);

}  // namespace convoy::h5
