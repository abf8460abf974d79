// ReLU, GELU and add where they were not fused, scaling, and copies of gradients.
#include "kernels/activation.cuh"
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

/// Computes to = f(a, b), or to += f(a, b) if `accumulate`, for V elements; b may be null.
template <int V, class T, class F>
__device__ void map_at(int64_t at, const T* a, const T* b, T* to, bool accumulate, F f) {
    float x[V], z[V] = {};
    load(a + at, x);
    if (b) load(b + at, z);
    for (int k = 0; k < V; ++k) x[k] = f(x[k], z[k]);
    store(x, to + at, accumulate);
}

/// Applies f to packs of V. Threads beyond the packs take the remaining elements one by one.
template <class T, int V, class F>
__global__ void __launch_bounds__(block_threads) map(int64_t n, const T* a, const T* b, T* to, bool accumulate, F f) {
    const int64_t i = global_index(), packs = n / V;
    if (i < packs)
        map_at<V>(i * V, a, b, to, accumulate, f);
    else if (packs * V + (i - packs) < n)
        map_at<1>(packs * V + (i - packs), a, b, to, accumulate, f);
}

template <class F>
void launch_map(const Tensor& a, const Tensor& b, const Tensor& to, bool accumulate, F f, cudaStream_t stream) {
    require(a.shape == to.shape && a.dtype == to.dtype && (!b.data || (b.shape == to.shape && b.dtype == to.dtype)),
            "element by element: shapes or types differ");
    const int64_t n = int64_t(to.count());
    if (n == 0) return;
    with_layout(to.dtype, 0 /* a multiple of every V */, {a.data, b.data, to.data}, [&](auto t, auto v) {
        using T = decltype(t);
        launch(map<T, v, F>, dim3(blocks_for(n / v + n % v)), dim3(block_threads), 0, stream, n, data_of<T>(a),
               data_of<T>(b), data_of<T>(to), accumulate, f);
    });
}

struct ReluOf {
    __device__ float operator()(float x, float) const { return relu(x); }
};
struct Where {
    __device__ float operator()(float d, float y) const { return y > 0 ? d : 0.0f; }
};
struct GeluOf {
    __device__ float operator()(float x, float) const { return gelu(x); }
};
struct ThroughGelu {
    __device__ float operator()(float d, float x) const { return d * gelu_derivative(x); }
};
struct Times {
    float factor;
    __device__ float operator()(float x, float) const { return factor * x; }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};
struct Same {
    __device__ float operator()(float a, float) const { return a; }
};

}  // namespace

void relu_forward(const Tensor& x, const Tensor& y, cudaStream_t stream) {
    launch_map(x, {}, y, false, ReluOf(), stream);
}

void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx, bool accumulate, cudaStream_t stream) {
    launch_map(dy, y, dx, accumulate, Where(), stream);
}

void gelu_forward(const Tensor& x, const Tensor& y, cudaStream_t stream) {
    launch_map(x, {}, y, false, GeluOf(), stream);
}

void gelu_backward(const Tensor& x, const Tensor& dy, const Tensor& dx, bool accumulate, cudaStream_t stream) {
    launch_map(dy, x, dx, accumulate, ThroughGelu(), stream);
}

void scale(const Tensor& from, float factor, const Tensor& to, bool accumulate, cudaStream_t stream) {
    launch_map(from, {}, to, accumulate, Times{factor}, stream);
}

void add_forward(const Tensor& a, const Tensor& b, const Tensor& y, cudaStream_t stream) {
    launch_map(a, b, y, false, Sum(), stream);
}

void add_backward(const Tensor& from, const Tensor& to, bool accumulate, cudaStream_t stream) {
    launch_map(from, {}, to, accumulate, Same(), stream);
}

}  // namespace convoy::kernels
