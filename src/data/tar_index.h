// Where the members of a plain tar archive lie, so that any of them can be read at once. Only
// headers are read: an archive of 138 GB takes a second or a minute, by its disk. Knows ustar,
// GNU's long names and sizes, and pax.
#pragma once
#include <functional>
#include <string>

#include "data/input_bytes.h"

namespace convoy {

/// A regular file in an archive, or a link.
struct TarPlace {
    std::string name;               ///< as it is written there: "train/n01440764/x.JPEG"
    int64_t offset = 0, bytes = 0;  ///< of its content, in the file that the archive lies in
    bool is_link = false;           ///< hard or symbolic: it has no content here
};

/// Whether bytes [offset, offset + bytes) of a file begin as a plain tar archive does.
bool is_tar(const InputBytes& file, int64_t offset, int64_t bytes);

/// Calls `visit` for every regular file and link of the archive in bytes [offset, offset + bytes)
/// of `file`: a member of another archive, or all of it. Archives that were joined (cat a.tar
/// b.tar) count as one. Throws Exit::bad_input for what is damaged or cut off, and for other bytes
/// after the end.
void index_tar(const InputBytes& file, int64_t offset, int64_t bytes,
               const std::function<void(const TarPlace&)>& visit);

}  // namespace convoy
