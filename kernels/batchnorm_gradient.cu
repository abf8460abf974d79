// Batch norm backward. g is dy times the activation's derivative, which is recomputed from x (from
// y for ReLU with a residual).
//   dbias  = sum g
//   dscale = invstd * sum g (x - mean)
//   dx     = a (g - dbias / n - (x - mean) invstd^2 sum g (x - mean) / n)
// Two passes read dy, x and, for ReLU with a residual, y. The first pass writes g if the residual's
// gradient is g, or if g takes long to compute (GELU). The second then reads g instead; see kept().
#include "kernels/batchnorm.cuh"

namespace convoy::kernels {
namespace {

/// The activation's derivative, and what it is computed from.
enum class Slope { one, relu_of_y, relu_of_x, gelu_of_x };

// Lets the compiler use more registers, as in batchnorm.cu. GELU's derivative needs registers
// itself: two rows keep enough loads in flight, and four would spill more.
constexpr int blocks_of_sm = 2;
template <class S> constexpr int rows_in_flight = std::is_same_v<S, Constant<Slope::gelu_of_x>> ? 2 : 4;

/// The gradient that reaches a batch norm. `S` is Slope or a Constant of it.
template <class T, class S> struct Incoming {
    int64_t rows;
    int stored, channels;
    S slope;
    const float *scale, *bias, *mean, *invstd;
    const T *x, *y, *dy;

    template <int V> struct Raw {
        Pack<T, V> dy, x, y;
    };
    template <int V> __device__ Raw<V> fetch(int64_t row, int channel) const {
        const int64_t at = row * stored + channel;
        Raw<V> raw{kernels::fetch<V>(dy + at), kernels::fetch<V>(x + at), {}};
        if (slope == Slope::relu_of_y) raw.y = kernels::fetch<V>(y + at);
        return raw;
    }
    /// Computes g and x - mean of one row.
    template <int V>
    __device__ void work_out(const Raw<V>& raw, const Coefficients<V>& n, const float (&m)[V], float (&g)[V],
                             float (&centred)[V]) const {
        float v[V], z[V];
        unpack(raw.dy, g);
        unpack(raw.x, v);
        if (slope == Slope::relu_of_y)
            unpack(raw.y, z);
        else
            for (int k = 0; k < V; ++k) z[k] = n.a[k] * v[k] + n.b[k];
        for (int k = 0; k < V; ++k) {
            if (slope == Slope::gelu_of_x)
                g[k] *= gelu_derivative(z[k]);
            else if (slope != Slope::one)
                g[k] = z[k] > 0 ? g[k] : 0.0f;
            centred[k] = v[k] - m[k];
        }
    }
    __device__ bool may_have_residual() const { return slope == Slope::one || slope == Slope::relu_of_y; }
    template <int V> __device__ Coefficients<V> coefficients(int channel) const {
        return {channel, channels, scale, bias, mean, invstd, -1.0f};
    }
    template <int V> __device__ void means(int channel, float (&m)[V]) const {
        for (int k = 0; k < V; ++k) m[k] = channel + k < channels ? mean[channel + k] : 0.0f;
    }
};

/// Sums g and g (x - mean). Also writes g [rows, stored] to `kept`, unless that is null. It does so
/// for GELU, where `kept` may be dy, and for ReLU with a residual.
template <class T, int V, class S>
__global__ void __launch_bounds__(block_threads, blocks_of_sm)
    gradient_sums(Incoming<T, S> in, T* kept, float* partial) {
    const int channel = first_channel<V>();
    float sum[2][V] = {};
    if (channel < in.stored) {
        const Coefficients<V> coefficients = in.template coefficients<V>(channel);
        float mean[V];
        in.means(channel, mean);
        const auto fetch = [&](int64_t row) { return in.template fetch<V>(row, channel); };
        each_row<rows_in_flight<S>>(in.rows, fetch, [&](int64_t row, const auto& raw) {
            float g[V], centred[V];
            in.work_out(raw, coefficients, mean, g, centred);
            if ((in.slope == Slope::relu_of_y || in.slope == Slope::gelu_of_x) && kept)
                store(g, kept + row * in.stored + channel);
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
        if (dbias) dbias[c] = float(total[0]);
        // without rows, invstd was never written
        if (dscale) dscale[c] = rows > 0 ? float(total[1] * double(invstd[c])) : 0.0f;
    }
};

/// Computes `sums` from gradients that are already written: WriteGradients reversed.
__global__ void sums_of_gradients(WriteGradients of) {
    const int c = int(global_index());
    if (c >= of.channels) return;
    of.sums[c] = double(of.dbias[c]);
    of.sums[of.channels + c] = double(of.dscale[c]) / double(of.invstd[c]);
    if (c == 0) of.sums[2 * of.channels] = double(of.rows);
}

/// Writes the sums of a norm whose statistics do not depend on the batch: they add nothing to dx.
__global__ void sums_of_constants(double* sums, int channels) {
    const int c = int(global_index());
    if (c >= channels) return;
    sums[c] = sums[channels + c] = 0;
    if (c == 0) sums[2 * channels] = 1;
}

/// The residual's gradient; stored is 0 without a residual.
template <class T> struct Residual {
    T* gradient;
    int stored, channels;
    bool accumulate;
};

/// Computes dx if `wanted`, and the residual's gradient if there is one.
template <class T, int V, class S, class Rows>
__global__ void __launch_bounds__(block_threads, blocks_of_sm)
    gradient_apply(Incoming<T, S> in, const double* sums, Rows dx, bool wanted, Residual<T> residual) {
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
    const auto fetch = [&](int64_t row) { return in.template fetch<V>(row, channel); };
    each_row<Rows::one_load ? rows_in_flight<S> : 1>(in.rows, fetch, [&](int64_t row, const auto& raw) {
        float g[V], centred[V];
        in.work_out(raw, coefficients, mean, g, centred);
        if (in.may_have_residual() && channel < residual.stored) {  // before dx, which may be the same memory
            float share[V];
            for (int k = 0; k < V; ++k) share[k] = channel + k < residual.channels ? g[k] : 0.0f;
            store(share, residual.gradient + row * residual.stored + channel, residual.accumulate);
        }
        if (!wanted) return;
        for (int k = 0; k < V; ++k) g[k] = coefficients.a[k] * (g[k] - k1[k] - centred[k] * k2[k]);
        dx.write(row, channel, g);
    });
}

Slope slope_of(const BatchNormArgs& n) {
    if (n.act == Act::identity) return Slope::one;
    if (n.act == Act::gelu) return Slope::gelu_of_x;
    return n.residual.data ? Slope::relu_of_y : Slope::relu_of_x;
}

/// Returns where the summing pass writes g, for the applying pass to read in place of dy and y. No
/// data: g is not written. With a residual, g goes to the residual's gradient, unless that has
/// other channels than x or must be added to. This rounds nothing, because ReLU's g is dy or 0.
/// With GELU, g replaces dy, which nothing reads later, and is rounded as dy was. The first pass
/// then writes one more tensor, but the second is limited only by the speed of memory.
Tensor kept(const BatchNormArgs& n, const BatchNormGradients& g) {
    const Slope slope = slope_of(n);
    if (slope == Slope::gelu_of_x) return g.dy;
    const bool is_residuals = slope == Slope::relu_of_y && g.dresidual.data && !g.accumulate_dresidual &&
                              g.dresidual.shape.c == n.x.shape.c && n.residual_channels == n.channels;
    return is_residuals ? g.dresidual : Tensor{};
}

template <class T, class S> Incoming<T, S> incoming(const BatchNormArgs& n, const BatchNormGradients& g, S slope) {
    return {int64_t(n.x.shape.pixels()),
            n.x.shape.c,
            n.channels,
            slope,
            n.scale,
            n.bias,
            n.mean,
            n.invstd,
            data_of<T>(n.x),
            data_of<T>(n.y),
            data_of<T>(g.dy)};
}

/// Calls f with an Incoming. Its slope is one of `slopes`; on the fast path, it is a Constant.
template <class T, int V, Slope... slopes, class F>
void with_incoming(const BatchNormArgs& n, const BatchNormGradients& g, F f) {
    with_fast_constant<V, slopes...>(slope_of(n), [&](auto slope) { f(incoming<T>(n, g, slope)); });
}

void launch_apply(const BatchNormArgs& n, const BatchNormGradients& g, const double* sums, cudaStream_t stream) {
    const Shape& s = n.x.shape;
    const int64_t rows = int64_t(s.pixels());
    if (rows == 0 || (!g.dx.data && !g.dresidual.data)) return;
    require(!g.dresidual.data || n.residual.data, "batch norm: a residual's gradient without a residual");
    with_norm_layout(n, g.dresidual, {n.y.data, g.dy.data, g.dx.data}, [&](auto t, auto v) {
        using T = decltype(t);
        const Residual<T> residual{data_of<T>(g.dresidual), g.dresidual.data ? g.dresidual.shape.c : 0,
                                   n.residual_channels, g.accumulate_dresidual};
        const RowGrid grid = row_grid(s.c / v, rows, pass_blocks);
        const auto apply = [&]<class S>(const Incoming<T, S>& in, auto dx) {
            launch(gradient_apply<T, v, S, decltype(dx)>, grid.grid, grid.block, 0, stream, in, sums, dx,
                   g.dx.data != nullptr, residual);
        };
        if (n.image.data)
            apply(incoming<T>(n, g, slope_of(n)), pooled<T>(n, g.dx, false, g.accumulate_dx));
        else
            with_incoming<T, v, Slope::one, Slope::relu_of_y, Slope::relu_of_x, Slope::gelu_of_x>(
                n, g, [&](const auto& in) { apply(in, Direct<T>{data_of<T>(g.dx), s.c, g.accumulate_dx}); });
    });
}

}  // namespace

void batch_norm_gradient_sums(const BatchNormArgs& n, const BatchNormGradients& g, double* sums, void* workspace,
                              cudaStream_t stream) {
    check(n);
    const Shape& s = n.x.shape;
    const int64_t rows = int64_t(s.pixels());
    float* partial = static_cast<float*>(workspace);
    const Tensor to = kept(n, g);
    if (rows > 0)
        with_layout(n.x.dtype, s.c, {n.x.data, n.y.data, g.dy.data, to.data}, [&](auto t, auto v) {
            using T = decltype(t);
            const RowGrid grid = row_grid(s.c / v, sum_chunks(rows));
            with_incoming<T, v, Slope::one, Slope::relu_of_y, Slope::relu_of_x, Slope::gelu_of_x>(
                n, g, [&]<class S>(const Incoming<T, S>& in) {
                    launch(gradient_sums<T, v, S>, grid.grid, grid.block, sum_shared_bytes<2, v>(grid), stream, in,
                           data_of<T>(to), partial);
                });
        });
    launch_finish<2>(partial, rows, s.c, n.channels,
                     WriteGradients{sums, n.channels, rows, n.invstd, g.dscale, g.dbias}, stream);
}

void batch_norm_gradient_apply(const BatchNormArgs& n, const BatchNormGradients& g, const double* sums,
                               cudaStream_t stream) {
    check(n);
    const Tensor from = kept(n, g);
    if (!from.data) return launch_apply(n, g, sums, stream);
    BatchNormArgs linear = n;
    linear.act = Act::identity;
    linear.residual = {};
    BatchNormGradients rest = g;
    rest.dy = from;
    rest.dresidual = {};
    launch_apply(linear, rest, sums, stream);
}

void batch_norm_backward(const BatchNormArgs& n, const BatchNormGradients& g, void* workspace, cudaStream_t stream) {
    double* sums = sums_in(workspace, n.x.shape);
    batch_norm_gradient_sums(n, g, sums, workspace, stream);
    batch_norm_gradient_apply(n, g, sums, stream);
}

void batch_norm_fixed_backward(const BatchNormArgs& n, const BatchNormGradients& g, void* workspace,
                               cudaStream_t stream) {
    check(n);
    double* sums = sums_in(workspace, n.x.shape);
    launch(sums_of_constants, dim3(blocks_for(n.channels)), dim3(block_threads), 0, stream, sums, n.channels);
    launch_apply(n, g, sums, stream);
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
