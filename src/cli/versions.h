// Facts that a run records: the versions of all libraries, as these report them, and the host and
// device.
#pragma once
#include "backend/backend.h"

namespace convoy {

/// (library, version) with lower-case names: mpi, hdf5, onednn, boost, openssl, libarchive,
/// libjpeg, libpng, libwebp, giflib, libtiff.
Versions library_versions();
/// These, and those that only the backend needs on this host. On GPUs: driver, cuda, kernels,
/// cudnn, nccl.
Versions versions_of_run(const Backend&);
/// Returns facts_of_host() and the GPU.
Facts environment_of_run(const Backend&);

}  // namespace convoy
