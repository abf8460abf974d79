// Finds the offsets of the members of a plain tar archive, so that any member can be read directly.
// Reads only headers: an archive of 138 GB takes a second to a minute, depending on the disk.
// Supports ustar, GNU's long names and sizes, and pax.
#pragma once
#include <functional>
#include <string>

#include "data/input_bytes.h"

namespace convoy {

/// A regular file in an archive, or a link.
struct TarPlace {
    std::string name;               ///< full name: "train/n01440764/x.JPEG"
    int64_t offset = 0, bytes = 0;  ///< content, as bytes of the file that the archive lies in
    bool is_link = false;           ///< hard or symbolic link, without content
};

/// True if bytes [offset, offset + bytes) of a file begin like a plain tar archive.
bool is_tar(const InputBytes& file, int64_t offset, int64_t bytes);

/// Calls `visit` for every regular file and link of the archive in bytes [offset, offset + bytes)
/// of `file`: the whole file, or a member of another archive. Concatenated archives (cat a.tar
/// b.tar) count as one. Throws Exit::bad_input if the archive is damaged or truncated, or if other
/// bytes follow its end.
void index_tar(const InputBytes& file, int64_t offset, int64_t bytes,
               const std::function<void(const TarPlace&)>& visit);

}  // namespace convoy
