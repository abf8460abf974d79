// Declarations with which g++ compiles kernels/*.cu for the host. make includes this file before
// each of them, and before the tests that call their launchers. Threads of a block are fibers
// (grid.h). CUDA features that are missing here do not compile, so add them with a test.
#pragma once
// Function-local and kept between blocks, like a block's shared memory that is not cleared.
#define __shared__ static
#define __launch_bounds__(...)
#ifdef CONVOY_EMULATED
#include "kernels/check.h"
#include "tests/emulated/cuda.h"
#else
// nvcc's objects of the same files may be linked into the same program.
#define kernels kernels_on_host
#endif

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <source_location>

#include "tests/kernels/fibers/grid.h"

// Indices of the running fiber; grid.cpp sets them at every switch.
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

using Place = std::source_location;

inline void __syncthreads(Place at = Place::current()) { convoy::test::wait_for_block(at); }
inline void __syncwarp(unsigned mask = ~0u, Place at = Place::current()) { convoy::test::wait_for_warp(mask, at); }
inline void __threadfence() {}

template <class T> T __shfl_sync(unsigned mask, T value, int source, Place at = Place::current()) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = convoy::test::exchange(mask, bits, source & 31, at);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes, Place at = Place::current()) {
    return __shfl_sync(mask, value, convoy::test::lane() ^ lanes, at);
}
/// Returns the value from `delta` lanes up; the last lanes keep their own.
template <class T> T __shfl_down_sync(unsigned mask, T value, int delta, Place at = Place::current()) {
    const int lane = convoy::test::lane();
    return __shfl_sync(mask, value, lane + delta < 32 ? lane + delta : lane, at);
}
inline unsigned __ballot_sync(unsigned mask, bool predicate, Place at = Place::current()) {
    unsigned votes = 0;
    for (int i = 0; i < 32; ++i)
        if (mask >> i & 1) votes |= unsigned(__shfl_sync(mask, predicate, i, at)) << i;
    return votes;
}
inline bool __any_sync(unsigned mask, bool predicate, Place at = Place::current()) {
    return __ballot_sync(mask, predicate, at) != 0;
}

// Fibers switch only where they wait, so plain code is atomic.
template <class T> T atomicAdd(T* at, T value) {
    const T old = *at;
    *at = old + value;
    return old;
}

inline int atomicMax(int* at, int value) {
    const int old = *at;
    *at = max(old, value);
    return old;
}

namespace convoy::kernels {

template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, [[maybe_unused]] cudaStream_t stream,
            A... arguments) {
#ifdef CONVOY_EMULATED
    const double threads = double(grid.x) * grid.y * grid.z * block.x * block.y * block.z;
    if (test::is_left_out(threads)) return;
    test::put_on_stream(stream, [=] { test::run_grid(grid, block, shared_bytes, [&] { kernel(arguments...); }); });
    check(cudaGetLastError(), "starting a kernel");
#else
    test::run_grid(grid, block, shared_bytes, [&] { kernel(arguments...); });
#endif
}
template <class T> T* shared_memory() { return static_cast<T*>(test::shared_memory()); }
inline uint64_t device_time() { return test::device_time(); }
template <class P> P read_from(const P* from) {
    test::traffic().read += sizeof(P);
    return *from;
}
template <class P> void write_to(P* to, const P& value) {
    test::traffic().written += sizeof(P);
    ++test::traffic().stores;
    *to = value;
}

}  // namespace convoy::kernels
