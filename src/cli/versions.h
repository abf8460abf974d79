// What a run is recorded with: versions of every library that takes part, as their owners report
// them, and the host and device it runs on.
#pragma once
#include "backend/backend.h"

namespace convoy {

/// (library, version) with lower-case names: mpi, hdf5, onednn, boost, openssl, libarchive,
/// libjpeg, libpng.
Versions library_versions();
/// These, and those that only the backend needs on this host. On GPUs: driver, cuda, kernels,
/// cudnn, nccl.
Versions versions_of_run(const Backend&);
/// What this host and its device are: facts_of_host, and which GPU.
Facts environment_of_run(const Backend&);

}  // namespace convoy
