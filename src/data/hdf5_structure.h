// Walks through the structure of an HDF5 file without HDF5. HDF5 trusts numbers that contradict
// each other if their checksums are right, and then accesses memory beyond its buffers. So only the
// structures that Convoy and h5py (libver='v110') write are accepted.
#pragma once
#include <cstdint>
#include <string>

#include "data/input_bytes.h"

namespace convoy::h5 {

enum class Objects { opened, all };

constexpr uint64_t most_chunk_bytes = uint64_t(64) << 20;  ///< a data set with larger chunks is refused

/// Walks from the root to every object. Throws Exit::bad_input if the root is not as Convoy writes
/// it, or if two objects share bytes. Throws Inaccessible if the file cannot be read. Refuses other
/// unfit objects only with Objects::all. With Objects::opened, check_object_at() must check each of
/// them before HDF5 opens it. Data are not read.
void check_structure(const InputBytes& file, Objects = Objects::opened);
void check_structure(const std::string& path, Objects = Objects::opened);

/// Checks the object `name` at `address` of a file that is open as `fd`. Throws Exit::bad_input.
void check_object_at(int fd, uint64_t address, const std::string& name, const std::string& path);

}  // namespace convoy::h5
