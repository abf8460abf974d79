// Checks calls of the CUDA runtime: a failed call throws and names its place.
#pragma once
#include <cuda_runtime_api.h>

#include <source_location>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace convoy::kernels {

/// Throws Exit::out_of_memory, or std::runtime_error "WHAT failed on the GPU: REASON (file:line)".
/// `what` is what was being done, such as "making a stream".
inline void check(cudaError_t e, const char* what, std::source_location at = std::source_location::current()) {
    if (e == cudaSuccess) return;
    if (e == cudaErrorMemoryAllocation)
        fail(Exit::out_of_memory, std::string("out of memory on the GPU: ") + what + " (" + at.file_name() + ":" +
                                      std::to_string(at.line()) + "); use a smaller batch");
    throw std::runtime_error(std::string(what) + " failed on the GPU: " + cudaGetErrorString(e) + " (" +
                             at.file_name() + ":" + std::to_string(at.line()) + ")");
}

}  // namespace convoy::kernels
