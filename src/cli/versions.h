// Versions of every library that takes part in a run, as their owners report them.
#pragma once
#include "backend/backend.h"

namespace convoy {

/// (library, version) with lower-case names: mpi, hdf5, onednn, boost, openssl, libarchive.
Versions library_versions();
/// These, and those that only the backend needs on this host. On GPUs: driver, cuda, kernels,
/// cudnn, nccl.
Versions versions_of_run(const Backend&);

}  // namespace convoy
