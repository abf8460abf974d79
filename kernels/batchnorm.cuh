// Shared by both directions of batch norm: the constants of a thread's channels, the sources of
// rows, and the activation.
#pragma once
#include "kernels/activation.cuh"
#include "kernels/kernels.h"
#include "kernels/rows.cuh"

namespace convoy::kernels {

/// Blocks of the passes that write: 8 per SM of an H100. With more, a thread of a deep layer would
/// have too few rows to keep several in flight.
constexpr int64_t pass_blocks = 8 * 132;

/// Constants of normalise(x) = a * x + b for V channels; 0 in padding.
template <int V> struct Coefficients {
    float a[V], b[V];

    /// Computes them from vectors [channels]; a null scale counts as 1. If epsilon >= 0, `invstd`
    /// holds variances.
    __device__ Coefficients(int channel, int channels, const float* scale, const float* bias, const float* mean,
                            const float* invstd, float epsilon) {
        for (int k = 0; k < V; ++k) {
            const int c = channel + k;
            a[k] = b[k] = 0;
            if (c >= channels) continue;
            a[k] = (scale ? scale[c] : 1.0f) * (epsilon >= 0 ? 1 / sqrtf(invstd[c] + epsilon) : invstd[c]);
            b[k] = bias[c] - mean[c] * a[k];
        }
    }
};

/// A source of rows: x itself; write() writes gradients to dx.
template <class T> struct Direct {
    static constexpr bool one_load = true;  // per row, so several rows can be in flight
    T* data;
    int stored;
    bool accumulate;
    template <int V> __device__ void pivot(int channel, float (&v)[V]) const { load(data + channel, v); }
    template <int V> __device__ Pack<T, V> fetch(int64_t row, int channel) const {
        return kernels::fetch<V>(data + row * stored + channel);
    }
    template <int V> __device__ void write(int64_t row, int channel, const float (&g)[V]) const {
        store(g, data + row * stored + channel, accumulate);
    }
};

/// A source of rows: maxima of the image that a max-pool reads; write() writes the image's
/// gradient.
template <class T> struct Pooled {
    static constexpr bool one_load = false;  // a whole window per row
    T* image;
    int stored;
    bool accumulate;
    T* x;            // null: maxima are not stored
    uint8_t* index;  // position of each maximum in its window
    int pool, h, w, out_h, out_w;

    __device__ int64_t pixel(const Pixel& at, int i, int j, int channel) const {
        return ((int64_t(at.n) * h + i) * w + j) * stored + channel;
    }
    template <int V> __device__ Pack<uint8_t, V> maxima(int64_t row, int channel, float (&v)[V]) const {
        const Pixel at(row, out_h, out_w);
        Pack<uint8_t, V> where{};
        load(image + pixel(at, at.i * pool, at.j * pool, channel), v);
        for (int k = 1; k < pool * pool; ++k) {
            float other[V];
            load(image + pixel(at, at.i * pool + k / pool, at.j * pool + k % pool, channel), other);
            for (int c = 0; c < V; ++c)
                if (other[c] > v[c] || other[c] != other[c]) {
                    v[c] = other[c];
                    where.value[c] = uint8_t(k);
                }
        }
        return where;
    }
    template <int V> __device__ void pivot(int channel, float (&v)[V]) const { maxima(0, channel, v); }
    template <int V> __device__ Pack<T, V> fetch(int64_t row, int channel) const {
        float v[V];
        const Pack<uint8_t, V> where = maxima(row, channel, v);
        const Pack<T, V> pack = packed<T>(v);  // exact: each is a value of the image
        if (x) {
            write_pack(pack, x + row * stored + channel);
            write_pack(where, index + row * stored + channel);
        }
        return pack;
    }
    /// Writes the gradient of the whole window. The last windows also write to pixels that no
    /// window covers.
    template <int V> __device__ void write(int64_t row, int channel, const float (&g)[V]) const {
        const Pixel at(row, out_h, out_w);
        const auto where = kernels::fetch<V>(index + row * stored + channel);
        const int top = at.i * pool, left = at.j * pool;
        const int bottom = at.i == out_h - 1 ? h : top + pool, right = at.j == out_w - 1 ? w : left + pool;
        for (int i = top; i < bottom; ++i)
            for (int j = left; j < right; ++j) {
                const int here = i < top + pool && j < left + pool ? (i - top) * pool + j - left : -1;
                float share[V];
                for (int c = 0; c < V; ++c) share[c] = where.value[c] == here ? g[c] : 0.0f;
                store(share, image + pixel(at, i, j, channel), accumulate);
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
    }
}

/// Returns the sums, which follow the partial sums in a workspace.
inline double* sums_in(void* workspace, const Shape& x) {
    return reinterpret_cast<double*>(static_cast<float*>(workspace) + 2 * sum_chunks(int64_t(x.pixels())) * x.c);
}

inline void check(const BatchNormArgs& n) {
    const Shape& x = n.x.shape;
    require(n.channels > 0 && n.channels <= x.c, "batch norm: more channels than are stored");
    if (n.image.data) {
        const Shape& i = n.image.shape;
        require((n.pool == 2 || n.pool == 3) && i.h / n.pool == x.h && i.w / n.pool == x.w && i.n == x.n &&
                    i.c == x.c && n.image.dtype == n.x.dtype,
                "batch norm: the image does not fit");
        require(x.pixels() < size_t(1) << 31, "batch norm: the batch is too large");
    }
    if (!n.residual.data) return;
    require(n.residual_channels <= n.channels && n.residual.shape.c <= x.c && n.residual_channels <= n.residual.shape.c,
            "batch norm: the residual has more channels than the output");
    require(n.residual.dtype == n.x.dtype && n.residual.shape.pixels() == x.pixels(),
            "batch norm: the residual does not fit");
    require(n.act == Act::identity || n.act == Act::relu, "batch norm: smooth activations take no residual");
}

template <class T> Pooled<T> pooled(const BatchNormArgs& n, const Tensor& image, bool keep, bool accumulate) {
    const Shape &i = n.image.shape, &x = n.x.shape;
    return {data_of<T>(image), i.c, accumulate, keep ? data_of<T>(n.x) : nullptr, n.index, n.pool, i.h, i.w, x.h, x.w};
}

/// Calls f like with_layout, for all tensors of a batch norm. `others` are tensors like x.
template <class F>
void with_norm_layout(const BatchNormArgs& n, const Tensor& residual, std::initializer_list<const void*> others, F f) {
    const int v = 16 / int(size_of(n.x.dtype));
    const bool fast = aligned16(others) && aligned16({n.x.data, n.image.data, n.index, residual.data}) &&
                      (!residual.data || residual.shape.c % v == 0);
    with_layout(n.x.dtype, fast ? n.x.shape.c : 1, {}, f);
}

}  // namespace convoy::kernels
