// How a kernel is started, and what of a device is not C++. Tests compile kernels for the host:
// there, their own header comes first and has the same functions.
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

/// The shared memory asked for at the launch.
template <class T> __device__ T* shared_memory() {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    return reinterpret_cast<T*>(shared_bytes);
}

/// What rows and vectors of tensors are read and written by: on the host they count bytes.
template <class P> __device__ P read_from(const P* from) { return *from; }
template <class P> __device__ void write_to(P* to, const P& value) { *to = value; }

/// Nanoseconds of the device's clock.
__device__ inline uint64_t device_time() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

}  // namespace convoy::kernels
#endif
