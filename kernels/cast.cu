// Conversion between dense f32 matrices (parameters, their gradients) and padded tensors in the
// precision of the convolutions.
#include "kernels/kernels.h"
#include "kernels/rows.cuh"

namespace convoy::kernels {
namespace {

/// Copies `from` [rows, channels] to `to` [all_rows, stored]; the rest of `to` becomes zero.
template <class T, int V>
__global__ void __launch_bounds__(block_threads)
    pad_rows(const float* from, int64_t rows, int channels, int64_t all_rows, int stored, T* to) {
    const int channel = first_channel<V>();
    if (channel >= stored) return;
    each_row(all_rows, [&](int64_t row) {
        float v[V] = {};
        for (int k = 0; k < V; ++k)
            if (row < rows && channel + k < channels) v[k] = from[row * channels + channel + k];
        store(v, to + row * stored + channel);
    });
}

template <class T, int V>
__global__ void __launch_bounds__(block_threads)
    crop_rows(const T* from, int64_t rows, int stored, int channels, float* to) {
    const int channel = first_channel<V>();
    if (channel >= channels) return;
    each_row(rows, [&](int64_t row) {
        float v[V];
        load(from + row * stored + channel, v);
        for (int k = 0; k < V; ++k)
            if (channel + k < channels) to[row * channels + channel + k] = v[k];
    });
}

constexpr int64_t cast_blocks = int64_t(1) << 20;

}  // namespace

void pad(const float* from, int64_t rows, int channels, const Tensor& to, cudaStream_t stream) {
    const int64_t all_rows = int64_t(to.shape.pixels());
    const int stored = to.shape.c;
    require(rows <= all_rows && channels <= stored, "pad: the target is smaller than the source");
    if (all_rows == 0) return;
    with_layout(to.dtype, stored, {to.data}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(stored / v, all_rows, cast_blocks);
        launch(pad_rows<T, v>, g.grid, g.block, 0, stream, from, rows, channels, all_rows, stored, data_of<T>(to));
    });
}

void crop(const Tensor& from, int64_t rows, int channels, float* to, cudaStream_t stream) {
    const int stored = from.shape.c;
    require(rows <= int64_t(from.shape.pixels()) && channels <= stored, "crop: the source is smaller than the target");
    if (rows == 0) return;
    with_layout(from.dtype, stored, {from.data}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(stored / v, rows, cast_blocks);
        launch(crop_rows<T, v>, g.grid, g.block, 0, stream, data_of<T>(from), rows, stored, channels, to);
    });
}

}  // namespace convoy::kernels
