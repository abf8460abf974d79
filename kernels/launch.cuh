// Starts kernels, and wraps the device features that are not C++: shared memory and the clock.
// Tests compile kernels for the host; there another header comes first and defines the same
// functions.
#pragma once
#include <cuda_runtime_api.h>

#include "kernels/check.h"

#ifdef __CUDACC__
namespace convoy::kernels {

template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, A... arguments) {
    kernel<<<grid, block, shared_bytes, stream>>>(arguments...);
    check(cudaGetLastError(), "starting a kernel");
}

/// Returns the shared memory requested at the launch.
template <class T> __device__ T* shared_memory() {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    return reinterpret_cast<T*>(shared_bytes);
}

/// Kernels read and write tensors by these two functions. The versions for the host also count
/// bytes.
template <class P> __device__ P read_from(const P* from) { return *from; }
template <class P> __device__ void write_to(P* to, const P& value) { *to = value; }

/// Returns nanoseconds of the device's clock.
__device__ inline uint64_t device_time() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

}  // namespace convoy::kernels
#endif
