// Max and average pooling. Max pooling stores the position of each maximum, so that backward is a
// gather. Each pixel reads the windows that contain it, and its sum has a fixed order.
#include "kernels/kernels.h"
#include "kernels/rows.cuh"

namespace convoy::kernels {
namespace {

struct Windows {
    int kernel, stride, pad, h, w, out_h, out_w, c;

    /// Finds rows [first, last) of the image under window i; columns in the same way, with n = w.
    __device__ void inside(int i, int n, int& first, int& last) const {
        first = max(i * stride - pad, 0);
        last = min(i * stride - pad + kernel, n);
    }
    /// Finds the windows [first, last), of `outputs`, that cover pixel i.
    __device__ void covering(int i, int outputs, int& first, int& last) const {
        const int behind = i + pad - kernel;  // the last window start that does not cover i
        first = behind < 0 ? 0 : behind / stride + 1;
        last = min((i + pad) / stride + 1, outputs);
    }
};

template <class T, int V>
__global__ void __launch_bounds__(block_threads) max_pool(Windows p, int64_t rows, const T* x, T* y, uint8_t* index) {
    const int channel = first_channel<V>();
    if (channel >= p.c) return;
    each_row(rows, [&](int64_t row) {
        const Pixel at(row, p.out_h, p.out_w);
        int top, bottom, left, right;
        p.inside(at.i, p.h, top, bottom);
        p.inside(at.j, p.w, left, right);
        float best[V];
        Pack<uint8_t, V> where{};
        for (int k = 0; k < V; ++k) best[k] = -INFINITY;
        for (int i = top; i < bottom; ++i)
            for (int j = left; j < right; ++j) {
                const int here = (i - (at.i * p.stride - p.pad)) * p.kernel + j - (at.j * p.stride - p.pad);
                const bool first = i == top && j == left;
                float v[V];
                load(x + ((int64_t(at.n) * p.h + i) * p.w + j) * p.c + channel, v);
                for (int k = 0; k < V; ++k)
                    if (first || v[k] > best[k] || v[k] != v[k]) {  // a NaN counts as the maximum
                        best[k] = v[k];
                        where.value[k] = uint8_t(here);
                    }
            }
        store(best, y + row * p.c + channel);
        if (index) *reinterpret_cast<Pack<uint8_t, V>*>(index + row * p.c + channel) = where;
    });
}

template <class T, int V>
__global__ void __launch_bounds__(block_threads) average_pool(Windows p, int64_t rows, const T* x, T* y) {
    const int channel = first_channel<V>();
    if (channel >= p.c) return;
    each_row(rows, [&](int64_t row) {
        const Pixel at(row, p.out_h, p.out_w);
        int top, bottom, left, right;
        p.inside(at.i, p.h, top, bottom);
        p.inside(at.j, p.w, left, right);
        float sum[V] = {};
        for (int i = top; i < bottom; ++i)
            for (int j = left; j < right; ++j) {
                float v[V];
                load(x + ((int64_t(at.n) * p.h + i) * p.w + j) * p.c + channel, v);
                for (int k = 0; k < V; ++k) sum[k] += v[k];
            }
        for (int k = 0; k < V; ++k) sum[k] /= float((bottom - top) * (right - left));
        store(sum, y + row * p.c + channel);
    });
}

/// Computes the gradient of max pooling if there is an index, else of average pooling.
template <class T, int V>
__global__ void __launch_bounds__(block_threads)
    pool_gradient(Windows p, int64_t rows, const T* dy, T* dx, const uint8_t* index, bool accumulate) {
    const int channel = first_channel<V>();
    if (channel >= p.c) return;
    each_row(rows, [&](int64_t row) {
        const Pixel at(row, p.h, p.w);
        int top, bottom, left, right;
        p.covering(at.i, p.out_h, top, bottom);
        p.covering(at.j, p.out_w, left, right);
        float sum[V] = {};
        for (int i = top; i < bottom; ++i)
            for (int j = left; j < right; ++j) {
                const int64_t window = ((int64_t(at.n) * p.out_h + i) * p.out_w + j) * p.c + channel;
                float d[V];
                load(dy + window, d);
                if (index) {
                    const int here = (at.i - (i * p.stride - p.pad)) * p.kernel + at.j - (j * p.stride - p.pad);
                    const auto where = *reinterpret_cast<const Pack<uint8_t, V>*>(index + window);
                    for (int k = 0; k < V; ++k) sum[k] += where.value[k] == here ? d[k] : 0.0f;
                } else {
                    int first_row, last_row, first_column, last_column;
                    p.inside(i, p.h, first_row, last_row);
                    p.inside(j, p.w, first_column, last_column);
                    const float count = float((last_row - first_row) * (last_column - first_column));
                    for (int k = 0; k < V; ++k) sum[k] += d[k] / count;
                }
            }
        store(sum, dx + row * p.c + channel, accumulate);
    });
}

Windows windows(const Pool& op, const Shape& x, const Shape& y) {
    require(x.c == y.c && x.n == y.n && op.pad < op.kernel, "pool: shapes do not fit");
    require((y.h - 1) * op.stride - op.pad < x.h && (y.w - 1) * op.stride - op.pad < x.w,
            "pool: a window lies outside the image");
    require(x.pixels() < size_t(1) << 31, "pool: the batch is too large");
    return {op.kernel, op.stride, op.pad, x.h, x.w, y.h, y.w, x.c};
}

constexpr int64_t pool_blocks = int64_t(1) << 20;  // a thread has little to reuse between rows

}  // namespace

void pool_forward(const Pool& op, const Tensor& x, const Tensor& y, uint8_t* index, cudaStream_t stream) {
    const Windows p = windows(op, x.shape, y.shape);
    require(!index || op.kernel <= 16, "pool: the window is too large for a saved index");
    const int64_t rows = int64_t(y.shape.pixels());
    if (rows == 0) return;
    with_layout(x.dtype, p.c, {x.data, y.data, index}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(p.c / v, rows, pool_blocks);
        if (op.kind == Pool::max)
            launch(max_pool<T, v>, g.grid, g.block, 0, stream, p, rows, data_of<T>(x), data_of<T>(y), index);
        else
            launch(average_pool<T, v>, g.grid, g.block, 0, stream, p, rows, data_of<T>(x), data_of<T>(y));
    });
}

void pool_backward(const Pool& op, const Tensor& dy, const Tensor& dx, const uint8_t* index, bool accumulate,
                   cudaStream_t stream) {
    const Windows p = windows(op, dx.shape, dy.shape);
    require(op.kind == Pool::average || index, "pool: the gradient of a maximum needs its index");
    const int64_t rows = int64_t(dx.shape.pixels());
    if (rows == 0) return;
    const uint8_t* maxima = op.kind == Pool::max ? index : nullptr;
    with_layout(dx.dtype, p.c, {dy.data, dx.data, maxima}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(p.c / v, rows, pool_blocks);
        launch(pool_gradient<T, v>, g.grid, g.block, 0, stream, p, rows, data_of<T>(dy), data_of<T>(dx), maxima,
               accumulate);
    });
}

}  // namespace convoy::kernels
