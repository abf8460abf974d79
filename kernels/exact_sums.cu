// Gradients of logical ranks as integers (ops/exact_sums.h). A block has a range of one tensor, and
// a thread four elements at a time.
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

constexpr int quad = 4;
using Integers = Pack<int64_t, quad>;

/// The pointers of ExactSums.
struct Sums {
    int64_t* sums;
    int32_t *tops, *seen, *redo;
    int bits, tensors;

    explicit Sums(const ExactSums& s)
        : sums(s.sums), tops(s.tops), seen(s.seen), redo(s.redo), bits(s.bits), tensors(int(s.ends.size())) {}
};

/// Calls body(i) for this thread's elements i ... i + 3 of a range.
template <class Body> __device__ void each_quad(const ExactRange& range, Body body) {
    for (int64_t i = range.begin + int64_t(threadIdx.x) * quad; i < range.end; i += block_threads * quad) body(i);
}

/// Converts a gradient. If the scaled gradient exceeds 2^bits or is NaN, the result is some valid
/// integer, and the step is not used.
__device__ int64_t integer(float value, double scale, double most) {
    double v = double(value) * scale;
    v = v < most ? v : most;
    v = v > -most ? v : -most;
    return int64_t(rint(v));
}

__global__ void __launch_bounds__(block_threads)
    add_integers(Sums s, const float* gradients, const ExactRange* ranges) {
    const ExactRange range = ranges[blockIdx.x];
    const double scale = ExactSums::scale(s.bits, s.tops[range.tensor]), most = power_of_two(s.bits);
    uint32_t largest = 0;
    each_quad(range, [&](int64_t i) {
        float g[quad];
        load(gradients + i, g);
        Integers sums = fetch<quad>(s.sums + i);
        for (int k = 0; k < quad; ++k) {
            uint32_t bits;
            memcpy(&bits, g + k, sizeof bits);
            bits &= 0x7fffffffu;
            largest = bits > largest ? bits : largest;
            sums.value[k] += integer(g[k], scale, most);
        }
        write_pack(sums, s.sums + i);
    });
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const uint32_t other = __shfl_xor_sync(~0u, largest, lanes);
        largest = other > largest ? other : largest;
    }
    const int32_t seen = exponent_of(largest);
    // read first: in most cases another warp has already noted an exponent as large
    if (threadIdx.x % 32 == 0 && seen > *const_cast<volatile int32_t*>(s.seen + range.tensor))
        atomicMax(s.seen + range.tensor, seen);
}

__global__ void __launch_bounds__(block_threads) take_integers(Sums s, const ExactRange* ranges, float* gradients) {
    const ExactRange range = ranges[blockIdx.x];
    const double unit = ExactSums::unit(s.bits, s.tops[range.tensor]);
    const bool finite = s.seen[range.tensor] != exponent::not_finite;
    each_quad(range, [&](int64_t i) {
        const Integers sums = fetch<quad>(s.sums + i);
        float g[quad];
        // Padding after the tensor stays zero, because no backward would overwrite a NaN there.
        for (int k = 0; k < quad; ++k)
            g[k] = finite ? float(double(float(sums.value[k])) * unit)
                          : (sums.value[k] != 0 || i + k == range.begin ? NAN : 0.0f);
        store(g, gradients + i);
        write_pack(Integers{}, s.sums + i);
    });
}

/// Sets the next exponents from those that all ranks have seen. One block.
__global__ void __launch_bounds__(block_threads) set_exponents(Sums s) {
    auto* any_does_not_fit = shared_memory<int>();
    if (threadIdx.x == 0) *any_does_not_fit = 0;
    __syncthreads();
    for (int t = int(threadIdx.x); t < s.tensors; t += block_threads) {
        const int32_t seen = s.seen[t], top = s.tops[t];
        // A tensor that is not finite would never fit, so it does not ask for a repetition. All
        // writers write the same value.
        if (seen > top && seen != exponent::not_finite) *any_does_not_fit = 1;
        s.tops[t] = next_top(top, seen);
        s.seen[t] = exponent::of_zero;
    }
    __syncthreads();
    if (threadIdx.x == 0) *s.redo = *any_does_not_fit;
}

void check_alignment(const ExactSums& s, const float* gradients) {
    require(reinterpret_cast<uintptr_t>(s.sums) % sizeof(Integers) == 0 && aligned16({gradients}),
            "exact sums: the arenas are aligned");
}

}  // namespace

void accumulate_exact(const ExactSums& s, const float* gradients, const ExactRange* ranges, int count,
                      cudaStream_t stream) {
    check_alignment(s, gradients);
    launch(add_integers, dim3(unsigned(count)), dim3(block_threads), 0, stream, Sums(s), gradients, ranges);
}

void finalize_exact(const ExactSums& s, const ExactRange* ranges, int count, float* gradients, cudaStream_t stream) {
    check_alignment(s, gradients);
    launch(take_integers, dim3(unsigned(count)), dim3(block_threads), 0, stream, Sums(s), ranges, gradients);
    launch(set_exponents, dim3(1), dim3(block_threads), sizeof(int), stream, Sums(s));
}

}  // namespace convoy::kernels
