// Versions of every library that takes part in a run.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// (library, version) with lower-case names: mpi, hdf5, onednn, boost, openssl, libarchive.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace convoy
