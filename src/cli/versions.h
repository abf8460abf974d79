// Facts that a run records: the versions of all libraries, as the libraries report them, and the
// host and device.
#pragma once
#include "backend/backend.h"

namespace convoy {

/// Returns (library, version) with lower-case names: mpi, hdf5, onednn, boost, openssl, libarchive,
/// libjpeg, libpng, libwebp, giflib, libtiff.
Versions library_versions();
/// Returns library_versions(), and the versions of what the backend uses besides. On GPUs: driver,
/// cuda, kernels, cudnn, nccl.
Versions versions_of_run(const Backend&);
/// Returns facts_of_host(), facts that identify the GPU, and the transport of all-reduces.
Facts environment_of_run(const Backend&);

}  // namespace convoy
