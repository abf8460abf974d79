// PyramidNet's shortcut: the image, or its 2x2 average, with zero channels appended.
#include "kernels/kernels.h"
#include "kernels/rows.cuh"

namespace convoy::kernels {
namespace {

/// Computes the shortcut. out_w is y's width. y has y_c stored channels; x has x_c, which is at
/// most y_c.
template <class T, int V>
__global__ void __launch_bounds__(block_threads)
    shortcut(int stride, int64_t rows, int out_w, int x_c, int y_c, const T* x, T* y) {
    const int channel = first_channel<V>();
    if (channel >= y_c) return;
    // a line of y is `stride` lines of x, and lines are counted through all images of the batch
    each_row(rows, [&](int64_t row) {
        float sum[V] = {};
        const int64_t line = int64_t(uint32_t(row) / uint32_t(out_w)), j = int64_t(uint32_t(row) % uint32_t(out_w)),
                      in_w = int64_t(out_w) * stride;
        if (channel < x_c) {
            for (int a = 0; a < stride; ++a)
                for (int b = 0; b < stride; ++b) {
                    float v[V];
                    load(x + ((line * stride + a) * in_w + j * stride + b) * x_c + channel, v);
                    for (int k = 0; k < V; ++k) sum[k] += v[k];
                }
            const float share = stride == 1 ? 1.0f : 0.25f;
            for (int k = 0; k < V; ++k) sum[k] *= share;
        }
        store(sum, y + row * y_c + channel);
    });
}

template <class T, int V>
__global__ void __launch_bounds__(block_threads) shortcut_gradient(int stride, int64_t rows, int in_w, int x_c, int y_c,
                                                                   int channels, const T* dy, T* dx, bool accumulate) {
    const int channel = first_channel<V>();
    if (channel >= x_c) return;
    each_row(rows, [&](int64_t row) {
        const int64_t line = int64_t(uint32_t(row) / uint32_t(in_w)), j = int64_t(uint32_t(row) % uint32_t(in_w)),
                      out_w = in_w / stride;
        float d[V];
        load(dy + ((line / stride) * out_w + j / stride) * y_c + channel, d);
        const float share = stride == 1 ? 1.0f : 0.25f;
        for (int k = 0; k < V; ++k) d[k] = channel + k < channels ? share * d[k] : 0.0f;
        store(d, dx + row * x_c + channel, accumulate);
    });
}

void check(int stride, const Shape& x, const Shape& y) {
    require((stride == 1 || stride == 2) && x.n == y.n && x.h == y.h * stride && x.w == y.w * stride && x.c <= y.c,
            "shortcut: shapes do not fit");
    require(x.pixels() < size_t(1) << 31, "shortcut: the batch is too large");
}

/// Returns a width that permits V elements at a time only if both channel counts permit it.
int64_t common_width(const Shape& x, const Shape& y, DType type) {
    return x.c % (16 / int(size_of(type))) == 0 ? y.c : 1;
}

constexpr int64_t shortcut_blocks = int64_t(1) << 20;

}  // namespace

void pad_shortcut_forward(int stride, const Tensor& x, const Tensor& y, cudaStream_t stream) {
    check(stride, x.shape, y.shape);
    const int64_t rows = int64_t(y.shape.pixels());
    if (rows == 0) return;
    with_layout(y.dtype, common_width(x.shape, y.shape, y.dtype), {x.data, y.data}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(y.shape.c / v, rows, shortcut_blocks);
        launch(shortcut<T, v>, g.grid, g.block, 0, stream, stride, rows, y.shape.w, x.shape.c, y.shape.c, data_of<T>(x),
               data_of<T>(y));
    });
}

void pad_shortcut_backward(int stride, const Tensor& dy, const Tensor& dx, int channels, bool accumulate,
                           cudaStream_t stream) {
    check(stride, dx.shape, dy.shape);
    const int64_t rows = int64_t(dx.shape.pixels());
    if (rows == 0) return;
    with_layout(dx.dtype, common_width(dx.shape, dy.shape, dx.dtype), {dy.data, dx.data}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(dx.shape.c / v, rows, shortcut_blocks);
        launch(shortcut_gradient<T, v>, g.grid, g.block, 0, stream, stride, rows, dx.shape.w, dx.shape.c, dy.shape.c,
               channels, data_of<T>(dy), data_of<T>(dx), accumulate);
    });
}

}  // namespace convoy::kernels
