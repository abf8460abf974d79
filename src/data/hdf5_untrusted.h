// Checks a file before HDF5 decodes it. HDF5 trusts files: if their parts contradict each other, it
// accesses memory beyond its buffers. Convoy's files use little of the format, so most of it is
// refused. Each function throws Exit::bad_input naming `path`.
#pragma once
#include <optional>
#include <string>

#include "data/hdf5.h"

namespace convoy::h5 {

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info1_t;
using LinkInfo = H5L_info1_t;
#else
using ObjectInfo = H5O_info_t;
using LinkInfo = H5L_info_t;
#endif

/// Returns the descriptor of an open file on disk.
int descriptor_of(hid_t file, const std::string& path);

/// Returns HDF5's number of an open file. A process's files are numbered from 1, one after the
/// other.
unsigned long number_of(hid_t file, const std::string& path);

/// Refuses the object `name`, to which a link of `parent` leads, unless it is stored as Convoy
/// stores objects (data/hdf5_structure.h). Call it before HDF5 is asked for anything but that link.
/// Does not check files that are open for writing, because this process makes them.
void check_object(hid_t parent, const std::string& name, uint64_t address, const std::string& path);

/// The chunks of a data set. All are stored plain and with Fletcher-32.
struct ChunkLayout {
    std::vector<hsize_t> dims, chunk;  ///< sides of the data set, and of a chunk; same rank, no chunk side is 0
    hsize_t bytes = 0;                 ///< of one chunk, without its checksum
};
/// Returns a data set's chunks, and refuses any other storage. Call it before HDF5 is asked for
/// anything else, because a virtual data set opens other files when HDF5 is asked for its extent.
ChunkLayout checked_chunks(hid_t dataset, const std::string& name, const std::string& path);
/// Refuses rows [first, first + rows) if one of their chunks is missing or does not have its full
/// size.
void check_stored_chunks(hid_t dataset, const ChunkLayout&, hsize_t first, hsize_t rows, const std::string& path);

/// Returns the text of a variable-length attribute, read from the file's bytes. HDF5 1.10 would
/// allocate the length that the attribute claims, and write the heap's bytes into it. Returns
/// nothing if heap and attribute differ. The file may hold several attributes of this name: deleted
/// ones, and those of other objects. Of these, the last one in the file that agrees with its heap
/// counts. The file must be on disk.
std::optional<std::string> variable_text(hid_t attribute, const std::string& name, const std::string& path);

}  // namespace convoy::h5
