// Adds a bias to the output of a convolution or a linear layer, and converts its type. Logits are
// converted to f32 here.
#include "kernels/kernels.h"
#include "kernels/rows.cuh"

namespace convoy::kernels {
namespace {

/// Computes `to` [rows, to_stored] = `from` [rows, from_stored] + bias [channels]. One thread per
/// element of `to`.
template <class F, class T>
__global__ void bias_kernel(const F* from, int from_stored, const float* bias, int channels, T* to, int to_stored,
                            int64_t elements) {
    const int64_t i = global_index();
    if (i >= elements) return;
    const int64_t row = i / to_stored;
    const int c = int(i - row * to_stored);
    to[i] = from_float<T>(c < channels ? to_float(from[row * from_stored + c]) + bias[c] : 0.0f);
}

/// Does the same where both have the same layout.
template <class T, int V>
__global__ void __launch_bounds__(block_threads)
    bias_rows(const T* from, const float* bias, int64_t rows, int stored, int channels, T* to) {
    const int channel = first_channel<V>();
    if (channel >= stored) return;
    float b[V];
    for (int k = 0; k < V; ++k) b[k] = channel + k < channels ? bias[channel + k] : 0.0f;
    each_row(rows, [&](int64_t row) {
        float v[V];
        load(from + row * stored + channel, v);
        for (int k = 0; k < V; ++k) v[k] = channel + k < channels ? v[k] + b[k] : 0.0f;
        store(v, to + row * stored + channel);
    });
}

constexpr int64_t bias_blocks = 4096;

}  // namespace

void add_bias(const Tensor& from, const float* bias, const Tensor& to, cudaStream_t stream) {
    require(from.shape.pixels() == to.shape.pixels() && from.channels() == to.channels(), "a bias keeps the shape");
    const int64_t elements = int64_t(to.count());
    if (elements == 0) return;
    if (from.dtype == to.dtype && from.shape.c == to.shape.c)
        return with_layout(to.dtype, to.shape.c, {from.data, to.data}, [&](auto t, auto v) {
            using T = decltype(t);
            const int64_t rows = int64_t(to.shape.pixels());
            const RowGrid g = row_grid(to.shape.c / v, rows, bias_blocks);
            launch(bias_rows<T, v>, g.grid, g.block, 0, stream, static_cast<const T*>(data_of<T>(from)), bias, rows,
                   to.shape.c, to.channels(), data_of<T>(to));
        });
    with_type(from.dtype, [&](auto f) {
        with_type(to.dtype, [&](auto t) {
            using F = decltype(f);
            using T = decltype(t);
            launch(bias_kernel<F, T>, dim3(blocks_for(elements)), dim3(block_threads), 0, stream,
                   static_cast<const F*>(data_of<F>(from)), from.shape.c, bias, to.channels(), data_of<T>(to),
                   to.shape.c, elements);
        });
    });
}

}  // namespace convoy::kernels
