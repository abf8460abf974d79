// Checks a file before HDF5 decodes it, because HDF5 trusts files: it reads, and writes, beyond its
// buffers where their parts contradict one another. Convoy's files use little of the format, so
// most of it is refused. Each function throws Exit::bad_input naming `path`.
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

/// The descriptor of an open file that lies on disk.
int descriptor_of(hid_t file, const std::string& path);

/// HDF5's number of an open file: files of a process are numbered from 1, one after the other.
unsigned long number_of(hid_t file, const std::string& path);

/// Refuses object `name`, which a link of `parent` leads to, if it is not as Convoy stores objects
/// (data/hdf5_structure.h). HDF5 must not have been asked for more than that link before. Files
/// that are open for writing are this process's own, and not looked at.
void check_object(hid_t parent, const std::string& name, uint64_t address, const std::string& path);

/// How a data set is cut into chunks, which are all stored plain and with Fletcher-32.
struct ChunkLayout {
    std::vector<hsize_t> dims, chunk;  ///< of the data set and of one chunk: the same rank, no side 0
    hsize_t bytes = 0;                 ///< of one chunk, without its checksum
};
/// Refuses any other storage. Must come before a data set is asked for anything else: a virtual one
/// opens other files when it is asked for its extent.
ChunkLayout checked_chunks(hid_t dataset, const std::string& name, const std::string& path);
/// Refuses rows [first, first + rows) if one of their chunks is missing or not of its full size.
void check_stored_chunks(hid_t dataset, const ChunkLayout&, hsize_t first, hsize_t rows, const std::string& path);

/// The text of an attribute of variable length, read from the file's bytes: HDF5 1.10 takes memory
/// for the length that the attribute has, and writes into it what the heap has. None if heap and
/// attribute differ. Of several attributes of this name, that were deleted or are of other objects,
/// it is the last one in the file. The file must lie on disk.
std::optional<std::string> variable_text(hid_t attribute, const std::string& name, const std::string& path);

}  // namespace convoy::h5
