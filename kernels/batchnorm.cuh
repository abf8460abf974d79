// What both directions of batch norm share: a thread's channels with their constants, and the activation.
#pragma once
#include "backend/activation.h"
#include "kernels/kernels.h"
#include "kernels/rows.cuh"

namespace convoy::kernels {

constexpr int64_t pass_blocks = 4096;  // of the passes that write

/// normalise(x) = a * x + b for V channels; 0 in padding.
template <int V> struct Coefficients {
    float a[V], b[V];

    /// Of vectors [channels]; no scale is 1. `invstd` holds variances if epsilon >= 0.
    __device__ Coefficients(int channel, int channels, const float* scale, const float* bias, const float* mean, const float* invstd,
                            float epsilon) {
        for (int k = 0; k < V; ++k) {
            const int c = channel + k;
            a[k] = b[k] = 0;
            if (c >= channels) continue;
            a[k] = (scale ? scale[c] : 1.0f) * (epsilon >= 0 ? 1 / sqrtf(invstd[c] + epsilon) : invstd[c]);
            b[k] = bias[c] - mean[c] * a[k];
        }
    }
};

template <int V> __device__ void activate(Act act, float (&z)[V]) {
    switch (act) {
        case Act::identity: return;
        case Act::relu:
            for (float& v : z) v = relu(v);
            return;
        case Act::gelu:
            for (float& v : z) v = gelu(v);
            return;
        case Act::silu:
            for (float& v : z) v = silu(v);
            return;
    }
}

/// g *= act'(z). For ReLU z may as well be what it gave.
template <int V> __device__ void activation_gradient(Act act, const float (&z)[V], float (&g)[V]) {
    switch (act) {
        case Act::identity: return;
        case Act::relu:
            for (int k = 0; k < V; ++k) g[k] = z[k] > 0 ? g[k] : 0.0f;
            return;
        case Act::gelu:
            for (int k = 0; k < V; ++k) g[k] *= gelu_derivative(z[k]);
            return;
        case Act::silu:
            for (int k = 0; k < V; ++k) g[k] *= silu_derivative(z[k]);
            return;
    }
}

/// The sums behind the partial ones in a workspace.
inline double* sums_in(void* workspace, const Shape& x) {
    return reinterpret_cast<double*>(static_cast<float*>(workspace) + 2 * sum_chunks(int64_t(x.pixels())) * x.c);
}

inline void check(const BatchNormArgs& n) {
    const Shape& x = n.x.shape;
    require(n.channels > 0 && n.channels <= x.c, "batch norm: more channels than are stored");
    if (!n.residual.data) return;
    require(n.residual_channels <= n.channels && n.residual.shape.c <= x.c && n.residual_channels <= n.residual.shape.c,
            "batch norm: the residual has more channels than the output");
    require(n.residual.dtype == n.x.dtype && n.residual.shape.pixels() == x.pixels(), "batch norm: the residual does not fit");
    require(n.act == Act::identity || n.act == Act::relu, "batch norm: smooth activations take no residual");
}

/// As with_layout, for all tensors of a batch norm; `others` like x.
template <class F> void with_norm_layout(const BatchNormArgs& n, const Tensor& residual, std::initializer_list<const void*> others, F f) {
    const int v = 16 / int(size_of(n.x.dtype));
    const bool fast = aligned16(others) && aligned16({n.x.data, residual.data}) && (!residual.data || residual.shape.c % v == 0);
    with_layout(n.x.dtype, fast ? n.x.shape.c : 1, {}, f);
}

}  // namespace convoy::kernels
