// Element types and 16-byte accesses. A kernel is a template of the stored type T and of V, the
// number of elements that it moves at once. V fills 16 bytes if alignment and channels permit, else
// it is 1. Arithmetic is in float.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <initializer_list>
#include <type_traits>

#include "base/host_device.h"
#include "base/tensor.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {

__device__ inline float to_float(float v) { return v; }
__device__ inline float to_float(__half v) { return __half2float(v); }
__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

template <class T> __device__ T from_float(float v) {
    if constexpr (std::is_same_v<T, __half>)
        return __float2half_rn(v);
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
        return __float2bfloat16_rn(v);
    else
        return v;
}

template <class T, int V> struct alignas(sizeof(T) * V) Pack {
    T value[V];
};

template <int V, class T> __device__ Pack<T, V> fetch(const T* from) {
    return read_from(reinterpret_cast<const Pack<T, V>*>(from));
}

template <int V, class T> __device__ void unpack(const Pack<T, V>& pack, float (&to)[V]) {
    for (int k = 0; k < V; ++k) to[k] = to_float(pack.value[k]);
}

template <int V, class T> __device__ void load(const T* from, float (&to)[V]) { unpack(fetch<V>(from), to); }

template <class T, int V> __device__ Pack<T, V> packed(const float (&from)[V]) {
    Pack<T, V> pack;
    for (int k = 0; k < V; ++k) pack.value[k] = from_float<T>(from[k]);
    return pack;
}

template <int V, class T> __device__ void write_pack(const Pack<T, V>& pack, T* to) {
    write_to(reinterpret_cast<Pack<T, V>*>(to), pack);
}

template <int V, class T> __device__ void store(const float (&from)[V], T* to) { write_pack(packed<T>(from), to); }

/// Writes to = from, or to += from.
template <int V, class T> __device__ void store(const float (&from)[V], T* to, bool accumulate) {
    if (!accumulate) return store(from, to);
    float sum[V];
    load(to, sum);
    for (int k = 0; k < V; ++k) sum[k] += from[k];
    store(sum, to);
}

/// Returns true if all of these, except null ones, lie at multiples of 16 bytes.
inline bool aligned16(std::initializer_list<const void*> pointers) {
    uintptr_t bits = 0;
    for (const void* p : pointers) bits |= reinterpret_cast<uintptr_t>(p);
    return bits % 16 == 0;
}

/// Calls f with a value of the element type.
template <class F> void with_type(DType type, F f) {
    switch (type) {
        case DType::f32: return f(float());
        case DType::f16: return f(__half());
        case DType::bf16: return f(__nv_bfloat16());
        default: require(false, "a kernel is asked for a type that it does not have");
    }
}

/// Calls f with the element type, and with V as an integral constant. V fills 16 bytes if `width`,
/// the elements of each row, is a multiple of it and all `pointers` are aligned; otherwise it is 1.
template <class F> void with_layout(DType type, int64_t width, std::initializer_list<const void*> pointers, F f) {
    with_type(type, [&](auto t) {
        constexpr int v = 16 / sizeof(t);
        if (width % v == 0 && aligned16(pointers))
            f(t, std::integral_constant<int, v>());
        else
            f(t, std::integral_constant<int, 1>());
    });
}

/// A value as a type, for kernels compiled for this value alone.
template <auto value> struct Constant {
    CONVOY_HD constexpr operator decltype(value)() const { return value; }
};

/// Calls f with `value`, which is one of `choices`; on the fast path, V > 1, as a Constant.
template <int V, auto... choices, class E, class F> void with_fast_constant(E value, F f) {
    const auto call = [&](auto choice) {
        if (value == choice) f(choice);
    };
    if constexpr (V > 1)
        (call(Constant<choices>()), ...);
    else
        f(value);
}

template <class T> T* data_of(const Tensor& t) { return static_cast<T*>(t.data); }

constexpr int block_threads = 256;

inline unsigned blocks_for(int64_t threads, int block = block_threads) {
    const int64_t blocks = (threads + block - 1) / block;
    require(blocks > 0 && blocks < int64_t(1) << 31, "a launch is empty or too large");
    return unsigned(blocks);
}

/// Returns this thread's index in a one-dimensional grid.
__device__ inline int64_t global_index() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

}  // namespace convoy::kernels
