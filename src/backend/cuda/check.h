// Errors of CUDA, NCCL and their owners: a failed call ends in a sentence, with the place where it was made.
#pragma once
#include <cuda_runtime_api.h>

#include <source_location>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace convoy {

/// Throws Exit::out_of_memory where memory did not suffice, else std::runtime_error: "doing WHAT on the GPU failed: REASON (file:line)".
inline void check(cudaError_t e, const char* what, std::source_location at = std::source_location::current()) {
    if (e == cudaSuccess) return;
    if (e == cudaErrorMemoryAllocation)
        fail(Exit::out_of_memory, std::string("out of memory on the GPU: ") + what + " (" + at.file_name() + ":" + std::to_string(at.line()) + "); use a smaller batch");
    throw std::runtime_error(std::string(what) + " failed on the GPU: " + cudaGetErrorString(e) + " (" + at.file_name() + ":" +
                             std::to_string(at.line()) + ")");
}

}  // namespace convoy
