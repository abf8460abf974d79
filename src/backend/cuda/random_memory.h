// Memory for what is timed. A GPU is faster at zeros, which switch fewer transistors.
#pragma once
#include "backend/cuda/handles.h"

namespace convoy::cuda {

/// Numbers from -1 to 1, whatever type they are read as; throws std::bad_alloc.
DeviceMemory random_memory(size_t bytes, cudaStream_t);

}  // namespace convoy::cuda
