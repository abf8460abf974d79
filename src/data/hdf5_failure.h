// What a failed HDF5 call means to the user: whether the system refused to open or read the file,
// or its bytes are damaged. HDF5's error codes tell most of it: its words change from version to
// version.
#pragma once
#include <cstdint>
#include <string>

#include "data/hdf5.h"

namespace convoy::h5 {

/// Throws why H5Fopen could not open `path`, which has so many bytes: Inaccessible, or
/// Exit::bad_input if it is damaged.
[[noreturn]] void fail_to_open(const std::string& path, uint64_t bytes);

/// As fail_to_read(), for rows of a data set; HDF5's words are gone once it is asked for a name.
[[noreturn]] void fail_to_read_rows(hid_t dataset, const std::string& path);

/// The name of a data set, for people.
std::string name_of(hid_t object);

/// Throws Exit::io: why H5Fcreate could not make `path`.
[[noreturn]] void fail_to_create(const std::string& path);

/// The answer of H5Lexists and the like to whether `object` has `name`. Throws Inaccessible if the
/// system could not read the file; a damaged file has nothing.
bool is_there(htri_t answer, hid_t object, const std::string& name);

}  // namespace convoy::h5
