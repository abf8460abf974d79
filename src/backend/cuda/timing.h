// Times work on the device before a program has memory.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace convoy::cuda {

/// Returns the number of operand sets of `bytes` each over which timed runs rotate. With enough
/// sets a cache of `cache` bytes cannot hold data that training would read from memory. At most 16.
size_t turns(size_t bytes, size_t cache);

/// Returns the microseconds of one of `works`, which do the same work on separate memory. Runs them
/// in turn.
float microseconds_of(const std::vector<std::function<void()>>& works, cudaStream_t);

}  // namespace convoy::cuda
