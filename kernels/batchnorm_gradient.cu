// Batch norm backward. With g = dy times the activation's derivative, recomputed from x (from y for
// ReLU with a residual): dbias = sum g, dscale = invstd * sum g (x - mean), dx = a (g - dbias / n -
// (x - mean) invstd^2 sum g (x - mean) / n).
#include "kernels/batchnorm.cuh"

namespace convoy::kernels {
namespace {

template <class T> struct Incoming {
    int64_t rows;
    int stored, channels;
    Act act;
    bool from_y;
    const float *scale, *bias, *mean, *invstd;
    const T *x, *y, *dy;

    /// Row `row`: g, and x - mean.
    template <int V>
    __device__ void read(int64_t row, int channel, const Coefficients<V>& n, const float (&m)[V], float (&g)[V],
                         float (&centred)[V]) const {
        const int64_t at = row * stored + channel;
        float v[V], z[V];
        load(dy + at, g);
        load(x + at, v);
        if (from_y) {
            load(y + at, z);
        } else {
            for (int k = 0; k < V; ++k) z[k] = n.a[k] * v[k] + n.b[k];
        }
        activation_gradient(act, z, g);
        for (int k = 0; k < V; ++k) centred[k] = v[k] - m[k];
    }
    template <int V> __device__ Coefficients<V> coefficients(int channel) const {
        return {channel, channels, scale, bias, mean, invstd, -1.0f};
    }
    template <int V> __device__ void means(int channel, float (&m)[V]) const {
        for (int k = 0; k < V; ++k) m[k] = channel + k < channels ? mean[channel + k] : 0.0f;
    }
};

template <class T, int V>
__global__ void __launch_bounds__(block_threads) gradient_sums(Incoming<T> in, float* partial) {
    const int channel = first_channel<V>();
    float sum[2][V] = {};
    if (channel < in.stored) {
        const Coefficients<V> coefficients = in.template coefficients<V>(channel);
        float mean[V];
        in.means(channel, mean);
        each_row(in.rows, [&](int64_t row) {
            float g[V], centred[V];
            in.read(row, channel, coefficients, mean, g, centred);
            for (int k = 0; k < V; ++k) {
                sum[0][k] += g[k];
                sum[1][k] += g[k] * centred[k];
            }
        });
    }
    write_block_sums(sum, in.stored, partial);
}

struct WriteGradients {
    double* sums;
    int channels;
    int64_t rows;
    const float* invstd;
    float *dscale, *dbias;
    __device__ void operator()(int c, double (&total)[2]) const {
        sums[c] = total[0];
        sums[channels + c] = total[1];
        if (c == 0) sums[2 * channels] = double(rows);
        dbias[c] = float(total[0]);
        // invstd of no rows was never written
        if (dscale) dscale[c] = rows > 0 ? float(total[1] * double(invstd[c])) : 0.0f;
    }
};

/// What WriteGradients was given, from what it made.
__global__ void sums_of_gradients(WriteGradients of) {
    const int c = int(global_index());
    if (c >= of.channels) return;
    of.sums[c] = double(of.dbias[c]);
    of.sums[of.channels + c] = double(of.dscale[c]) / double(of.invstd[c]);
    if (c == 0) of.sums[2 * of.channels] = double(of.rows);
}

/// The residual's share; stored is 0 without one.
template <class T> struct Residual {
    T* gradient;
    int stored, channels;
    bool accumulate;
};

/// `wanted`: whether there is a dx.
template <class T, int V, class Rows>
__global__ void __launch_bounds__(block_threads)
    gradient_apply(Incoming<T> in, const double* sums, Rows dx, bool wanted, Residual<T> residual) {
    const int channel = first_channel<V>();
    if (channel >= in.stored) return;
    const Coefficients<V> coefficients = in.template coefficients<V>(channel);
    float mean[V], k1[V], k2[V];
    in.means(channel, mean);
    const double one_over_n = 1 / sums[2 * in.channels];
    for (int k = 0; k < V; ++k) {
        const int c = channel + k;
        const bool real = c < in.channels;
        k1[k] = real ? float(sums[c] * one_over_n) : 0.0f;
        k2[k] = real ? float(sums[in.channels + c] * one_over_n * double(in.invstd[c]) * double(in.invstd[c])) : 0.0f;
    }
    each_row(in.rows, [&](int64_t row) {
        float g[V], centred[V];
        in.read(row, channel, coefficients, mean, g, centred);
        if (channel < residual.stored) {  // before dx, which may be the same memory
            float share[V];
            for (int k = 0; k < V; ++k) share[k] = channel + k < residual.channels ? g[k] : 0.0f;
            store(share, residual.gradient + row * residual.stored + channel, residual.accumulate);
        }
        if (!wanted) return;
        for (int k = 0; k < V; ++k) g[k] = coefficients.a[k] * (g[k] - k1[k] - centred[k] * k2[k]);
        dx.write(row, channel, g);
    });
}

template <class T> Incoming<T> incoming(const BatchNormArgs& n, const BatchNormGradients& g) {
    return {int64_t(n.x.shape.pixels()),
            n.x.shape.c,
            n.channels,
            n.act,
            n.residual.data && n.act == Act::relu,
            n.scale,
            n.bias,
            n.mean,
            n.invstd,
            data_of<T>(n.x),
            data_of<T>(n.y),
            data_of<T>(g.dy)};
}

}  // namespace

void batch_norm_gradient_sums(const BatchNormArgs& n, const BatchNormGradients& g, double* sums, void* workspace,
                              cudaStream_t stream) {
    check(n);
    const Shape& s = n.x.shape;
    const int64_t rows = int64_t(s.pixels());
    float* partial = static_cast<float*>(workspace);
    if (rows > 0)
        with_layout(n.x.dtype, s.c, {n.x.data, n.y.data, g.dy.data}, [&](auto t, auto v) {
            using T = decltype(t);
            const RowGrid grid = row_grid(s.c / v, sum_chunks(rows));
            launch(gradient_sums<T, v>, grid.grid, grid.block, sum_shared_bytes<2, v>(grid), stream, incoming<T>(n, g),
                   partial);
        });
    launch_finish<2>(partial, rows, s.c, n.channels,
                     WriteGradients{sums, n.channels, rows, n.invstd, g.dscale, g.dbias}, stream);
}

void batch_norm_gradient_apply(const BatchNormArgs& n, const BatchNormGradients& g, const double* sums,
                               cudaStream_t stream) {
    check(n);
    const Shape& s = n.x.shape;
    const int64_t rows = int64_t(s.pixels());
    if (rows == 0 || (!g.dx.data && !g.dresidual.data)) return;
    require(!g.dresidual.data || n.residual.data, "batch norm: a residual's gradient without a residual");
    with_norm_layout(n, g.dresidual, {n.y.data, g.dy.data, g.dx.data}, [&](auto t, auto v) {
        using T = decltype(t);
        const Residual<T> residual{data_of<T>(g.dresidual), g.dresidual.data ? g.dresidual.shape.c : 0,
                                   n.residual_channels, g.accumulate_dresidual};
        const RowGrid grid = row_grid(s.c / v, rows, pass_blocks);
        const auto to = [&](auto dx) {
            launch(gradient_apply<T, v, decltype(dx)>, grid.grid, grid.block, 0, stream, incoming<T>(n, g), sums, dx,
                   g.dx.data != nullptr, residual);
        };
        if (n.image.data)
            to(pooled<T>(n, g.dx, false, g.accumulate_dx));
        else
            to(Direct<T>{data_of<T>(g.dx), s.c, g.accumulate_dx});
    });
}

void batch_norm_backward(const BatchNormArgs& n, const BatchNormGradients& g, void* workspace, cudaStream_t stream) {
    double* sums = sums_in(workspace, n.x.shape);
    batch_norm_gradient_sums(n, g, sums, workspace, stream);
    batch_norm_gradient_apply(n, g, sums, stream);
}

void batch_norm_backward_of_sums(const BatchNormArgs& n, const BatchNormGradients& g, void* workspace,
                                 cudaStream_t stream) {
    double* sums = sums_in(workspace, n.x.shape);
    const WriteGradients of{sums, n.channels, int64_t(n.x.shape.pixels()), n.invstd, g.dscale, g.dbias};
    launch(sums_of_gradients, dim3(blocks_for(n.channels)), dim3(block_threads), 0, stream, of);
    BatchNormArgs masked = n;
    masked.act = Act::identity;
    batch_norm_gradient_apply(masked, g, sums, stream);
}

}  // namespace convoy::kernels
