// Batch norm forward, in three parts. First come the sums of differences from a pivot (row 0), so
// that a mean far from zero costs no digits. Then come the statistics. The last pass normalises,
// adds the residual and activates.
#include <cfloat>

#include "kernels/batchnorm.cuh"

namespace convoy::kernels {
namespace {

/// Lets the compiler use up to 80 registers per thread. Otherwise it saves registers, and puts each
/// load just before its use (make sass).
constexpr int blocks_of_sm = 3;

template <int V, class Rows>
__global__ void __launch_bounds__(block_threads, blocks_of_sm)
    moments(Rows x, int64_t rows, int stored, float* partial) {
    const int channel = first_channel<V>();
    float sum[2][V] = {};
    if (channel < stored) {
        float pivot[V];
        x.pivot(channel, pivot);
        const auto fetch = [&](int64_t row) { return x.template fetch<V>(row, channel); };
        each_row<Rows::one_load ? 4 : 1>(rows, fetch, [&](int64_t, const auto& raw) {
            float v[V];
            unpack(raw, v);
            for (int k = 0; k < V; ++k) {
                const float d = v[k] - pivot[k];
                sum[0][k] += d;
                sum[1][k] += d * d;
            }
        });
    }
    write_block_sums(sum, stored, partial);
}

/// Turns sums of differences from the pivot, row 0 of x, into sums about zero. Does nothing without
/// rows.
template <class T> struct AboutZero {
    const T* pivots;
    int64_t rows;
    __device__ void operator()(int c, double (&total)[2]) const {
        if (rows == 0) return;
        const double pivot = to_float(pivots[c]), n = double(rows), s = total[0];
        total[0] = s + n * pivot;
        total[1] += 2 * pivot * s + n * pivot * pivot;
    }
};

/// Writes mean, 1 / deviation and running statistics of one channel. Padding gets zeros, because
/// cuDNN's backward treats padding as channels.
struct Statistics {
    float *mean, *invstd, *running_mean, *running_var;
    float epsilon, momentum;
    int stored, channels;
    __device__ void operator()(int c, double n, double sum, double squares) const {
        if (c >= channels) {
            mean[c] = invstd[c] = 0;
            return;
        }
        const double m = sum / n, raw = squares / n - m * m, var = raw < 0 ? 0 : raw;  // a NaN stays NaN
        mean[c] = float(m);
        invstd[c] = float(1 / sqrt(var + double(epsilon)));
        if (!(fabsf(mean[c]) <= FLT_MAX && fabsf(invstd[c]) <= FLT_MAX)) return;  // this step's update is skipped
        running_mean[c] += momentum * (float(m) - running_mean[c]);
        running_var[c] += momentum * (float(n > 1 ? var * n / (n - 1) : var) - running_var[c]);
    }
};

template <class T> struct WriteSums {
    AboutZero<T> about_zero;
    double* sums;
    int channels;
    __device__ void operator()(int c, double (&total)[2]) const {
        about_zero(c, total);
        sums[c] = total[0];
        sums[channels + c] = total[1];
        if (c == 0) sums[2 * channels] = double(about_zero.rows);
    }
};

template <class T> struct WriteStatistics {
    AboutZero<T> about_zero;
    Statistics statistics;
    __device__ void operator()(int c, double (&total)[2]) const {
        about_zero(c, total);
        statistics(c, double(about_zero.rows), total[0], total[1]);
    }
};

__global__ void statistics_of_sums(const double* sums, int channels, Statistics statistics) {
    const int c = int(global_index());
    if (c < channels && sums[2 * channels] > 0) statistics(c, sums[2 * channels], sums[c], sums[channels + c]);
}

__global__ void statistics_of_conv(const float* sum, const float* squares, int64_t rows, Statistics statistics) {
    const int c = int(global_index());
    if (c < statistics.stored) statistics(c, double(rows), double(sum[c]), double(squares[c]));
}

__global__ void running_as_statistics(Statistics s) {
    const int c = int(global_index());
    if (c >= s.stored) return;
    s.mean[c] = c < s.channels ? s.running_mean[c] : 0.0f;
    s.invstd[c] = c < s.channels ? float(1 / sqrt(double(s.running_var[c]) + double(s.epsilon))) : 0.0f;
}

template <class T>
__global__ void statistics_for_reader(const float* sum, const float* squares, int64_t rows, Statistics statistics,
                                      const float* scale, const float* bias, T* to_scale, T* to_bias) {
    const int c = int(global_index());
    if (c >= statistics.stored) return;
    statistics(c, double(rows), double(sum[c]), double(squares[c]));
    const Coefficients<1> n(c, statistics.channels, scale, bias, statistics.mean, statistics.invstd, -1.0f);
    store(n.a, to_scale + c);
    store(n.b, to_bias + c);
}

struct Normalise {
    int64_t rows;
    int stored, channels, residual_stored;  // residual_stored: 0 without a residual
    const float *scale, *bias, *mean, *invstd;
    float epsilon;  // see Coefficients
};

/// `A` is Act or a Constant of it.
template <class T, int V, class A, class Rows>
__global__ void __launch_bounds__(block_threads, blocks_of_sm)
    normalise(Normalise n, A act, Rows x, const T* residual, T* y) {
    const int channel = first_channel<V>();
    if (channel >= n.stored) return;
    const Coefficients<V> coefficients(channel, n.channels, n.scale, n.bias, n.mean, n.invstd, n.epsilon);
    const bool add = channel < n.residual_stored;
    struct Raw {
        Pack<T, V> x, residual;
    };
    const auto fetch = [&](int64_t row) {
        Raw raw{x.template fetch<V>(row, channel), {}};
        if (add) raw.residual = kernels::fetch<V>(residual + row * n.residual_stored + channel);
        return raw;
    };
    each_row<Rows::one_load ? 2 : 1>(n.rows, fetch, [&](int64_t row, const Raw& raw) {
        float z[V];
        unpack(raw.x, z);
        for (int k = 0; k < V; ++k) z[k] = coefficients.a[k] * z[k] + coefficients.b[k];
        if (add) {
            float r[V];
            unpack(raw.residual, r);
            for (int k = 0; k < V; ++k) z[k] += r[k];
        }
        activate(act, z);
        store(z, y + row * n.stored + channel);
    });
}

/// Normalises with the running statistics, or with those of the batch.
void launch_normalise(const BatchNormArgs& n, bool by_running_statistics, cudaStream_t stream) {
    const Shape& s = n.x.shape;
    const int64_t rows = int64_t(s.pixels());
    if (rows == 0) return;
    const Normalise p{rows,
                      s.c,
                      n.channels,
                      n.residual.data ? n.residual.shape.c : 0,
                      n.scale,
                      n.bias,
                      by_running_statistics ? n.running_mean : n.mean,
                      by_running_statistics ? n.running_var : n.invstd,
                      by_running_statistics ? n.epsilon : -1.0f};
    with_norm_layout(n, n.residual, {n.y.data}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(s.c / v, rows, pass_blocks);
        const auto from = [&](auto act, auto x) {
            launch(normalise<T, v, decltype(act), decltype(x)>, g.grid, g.block, 0, stream, p, act, x,
                   data_of<T>(n.residual), data_of<T>(n.y));
        };
        if (n.image.data && by_running_statistics)
            from(n.act, pooled<T>(n, n.image, false, false));
        else
            with_fast_constant<v, Act::identity, Act::relu, Act::gelu>(
                n.act, [&](auto act) { from(act, Direct<T>{data_of<T>(n.x), s.c, false}); });
    });
}

void launch_moments(const BatchNormArgs& n, float* partial, cudaStream_t stream) {
    const Shape& s = n.x.shape;
    const int64_t rows = int64_t(s.pixels());
    if (rows == 0) return;
    require(!n.image.data || n.index, "batch norm: training after a max-pool needs an index");
    with_layout(n.x.dtype, s.c, {n.x.data, n.image.data, n.index}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(s.c / v, sum_chunks(rows));
        const auto of = [&](auto x) {
            launch(moments<v, decltype(x)>, g.grid, g.block, sum_shared_bytes<2, v>(g), stream, x, rows, s.c, partial);
        };
        if (n.image.data)
            of(pooled<T>(n, n.image, true, false));
        else
            of(Direct<T>{data_of<T>(n.x), s.c, false});
    });
}

Statistics statistics_of(const BatchNormArgs& n) {
    return {n.mean, n.invstd, n.running_mean, n.running_var, n.epsilon, n.momentum, n.x.shape.c, n.channels};
}

}  // namespace

size_t batch_norm_workspace(const Shape& x) {
    return sizeof(float) * 2 * size_t(sum_chunks(int64_t(x.pixels()))) * size_t(x.c) +
           sizeof(double) * (2 * size_t(x.c) + 1);
}

void batch_norm_forward(const BatchNormArgs& n, void* workspace, cudaStream_t stream) {
    check(n);
    const int64_t rows = int64_t(n.x.shape.pixels());
    if (rows == 0) return;
    float* partial = static_cast<float*>(workspace);
    launch_moments(n, partial, stream);
    with_type(n.x.dtype, [&](auto t) {
        using T = decltype(t);
        launch_finish<2>(partial, rows, n.x.shape.c, n.x.shape.c,
                         WriteStatistics<T>{{data_of<T>(n.x), rows}, statistics_of(n)}, stream);
    });
    launch_normalise(n, false, stream);
}

void batch_norm_forward(const BatchNormArgs& n, const float* sum, const float* squares, cudaStream_t stream) {
    check(n);
    const int64_t rows = int64_t(n.x.shape.pixels());
    if (rows == 0) return;
    launch(statistics_of_conv, dim3(blocks_for(n.x.shape.c)), dim3(block_threads), 0, stream, sum, squares, rows,
           statistics_of(n));
    launch_normalise(n, false, stream);
}

void batch_norm_statistics(const BatchNormArgs& n, const float* sum, const float* squares, void* scale, void* bias,
                           cudaStream_t stream) {
    check(n);
    const int64_t rows = int64_t(n.x.shape.pixels());
    if (rows == 0) return;
    with_type(n.x.dtype, [&](auto t) {
        using T = decltype(t);
        launch(statistics_for_reader<T>, dim3(blocks_for(n.x.shape.c)), dim3(block_threads), 0, stream, sum, squares,
               rows, statistics_of(n), n.scale, n.bias, static_cast<T*>(scale), static_cast<T*>(bias));
    });
}

void batch_norm_inference(const BatchNormArgs& n, cudaStream_t stream) {
    check(n);
    launch_normalise(n, true, stream);
}

void batch_norm_fixed(const BatchNormArgs& n, cudaStream_t stream) {
    check(n);
    if (n.x.shape.pixels() == 0) return;
    launch(running_as_statistics, dim3(blocks_for(n.x.shape.c)), dim3(block_threads), 0, stream, statistics_of(n));
    launch_normalise(n, false, stream);
}

void batch_norm_sums(const BatchNormArgs& n, double* sums, void* workspace, cudaStream_t stream) {
    check(n);
    const int64_t rows = int64_t(n.x.shape.pixels());
    float* partial = static_cast<float*>(workspace);
    launch_moments(n, partial, stream);
    with_type(n.x.dtype, [&](auto t) {
        using T = decltype(t);
        launch_finish<2>(partial, rows, n.x.shape.c, n.channels,
                         WriteSums<T>{{data_of<T>(n.x), rows}, sums, n.channels}, stream);
    });
}

void batch_norm_normalise(const BatchNormArgs& n, const double* sums, cudaStream_t stream) {
    check(n);
    launch(statistics_of_sums, dim3(blocks_for(n.channels)), dim3(block_threads), 0, stream, sums, n.channels,
           statistics_of(n));
    launch_normalise(n, false, stream);
}

}  // namespace convoy::kernels
