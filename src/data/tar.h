// Visits the members of a gzipped tar archive in the order of the archive.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace convoy {

/// A file in an archive.
struct TarMember {
    std::string name;                            ///< without its folder
    uint64_t bytes = 0;                          ///< size that its header claims
    std::function<std::vector<uint8_t>()> read;  ///< reads the content; call at most once, before the next member
};

/// The digests of an archive's own bytes.
struct ArchiveDigests {
    std::string md5, sha256;
};

/// Calls `visit` for every regular file in the archive. Returns the digests of the bytes that it
/// read. Throws Exit::bad_input if the file is
/// truncated, damaged or not a tar archive. Also throws it if the file unpacks to more than 1 GiB,
/// because a few megabytes can unpack to terabytes. `expected`: the name of the right file, for
/// the message.
ArchiveDigests visit_tar_gz(const std::string& path, const std::string& expected,
                            const std::function<void(const TarMember&)>& visit);

}  // namespace convoy
