// The members of a gzipped tar archive, one after the other, in the order in which they lie there.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace convoy {

/// A file in an archive.
struct TarMember {
    std::string name;                            ///< without its folder
    uint64_t bytes = 0;                          ///< what its header claims
    std::function<std::vector<uint8_t>()> read;  ///< all of it; call at most once, before the next member
};

/// Calls `visit` for every regular file in the archive. Throws Exit::bad_input for what is
/// truncated, damaged or no tar archive, and for one that unpacks to more than 1 GiB: a few
/// megabytes can unpack to terabytes. `expected` says what should have been given.
void visit_tar_gz(const std::string& path, const std::string& expected,
                  const std::function<void(const TarMember&)>& visit);

}  // namespace convoy
