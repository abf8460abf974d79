// Versions of every library that takes part in a run.
#pragma once
#include "backend/backend.h"

namespace convoy {

/// (library, version) with lower-case names: mpi, hdf5, onednn, boost, openssl, libarchive.
Versions library_versions();
/// These, and what the backend needs besides on this host: on GPUs driver, cuda, kernels, cudnn, nccl.
Versions versions_of_run(const Backend&);

}  // namespace convoy
