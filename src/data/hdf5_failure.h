// Explains failed HDF5 calls: the system refused the file, or the file is damaged. It uses HDF5's
// error codes as far as possible, because its messages change from version to version.
#pragma once
#include <cstdint>
#include <string>

#include "data/hdf5.h"

namespace convoy::h5 {

/// Throws the reason why H5Fopen failed: Inaccessible, or Exit::bad_input if `path` is damaged.
[[noreturn]] void fail_to_open(const std::string& path);

/// Like fail_to_read(), for the rows of a data set. Reads the error stack first, because asking for
/// the name clears it.
[[noreturn]] void fail_to_read_rows(hid_t dataset, const std::string& path);

/// Returns the path of the file that contains an object.
std::string path_of(hid_t object);

/// Returns the name of a data set, for people.
std::string name_of(hid_t object);

/// Throws Exit::io with the reason why H5Fcreate could not make `path`.
[[noreturn]] void fail_to_create(const std::string& path);

/// Returns the result of H5Lexists or H5Aexists for `name` in `object` as a bool. Throws
/// Inaccessible if the file could not be read. Returns false if it is damaged.
bool exists_in(htri_t answer, hid_t object, const std::string& name);

}  // namespace convoy::h5
