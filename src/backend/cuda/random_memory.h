// Random operands for timing. Zeros would be faster, because they switch fewer transistors.
#pragma once
#include "backend/cuda/handles.h"

namespace convoy::cuda {

/// Allocates memory with numbers from -1 to 1 in every floating-point type; throws std::bad_alloc.
DeviceMemory random_memory(size_t bytes, cudaStream_t);

}  // namespace convoy::cuda
