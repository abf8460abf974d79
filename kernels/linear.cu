// Bias gradients. The GEMMs of linear layers and convolutions are not here.
#include "kernels/kernels.h"
#include "kernels/rows.cuh"

namespace convoy::kernels {
namespace {

template <class T, int V>
__global__ void __launch_bounds__(block_threads) column_sums(const T* dy, int64_t rows, int stored, float* partial) {
    const int channel = first_channel<V>();
    float sum[1][V] = {};
    if (channel < stored)
        each_row(rows, [&](int64_t row) {
            float d[V];
            load(dy + row * stored + channel, d);
            for (int k = 0; k < V; ++k) sum[0][k] += d[k];
        });
    write_block_sums(sum, stored, partial);
}

struct WriteBias {
    float* db;
    __device__ void operator()(int c, const double (&total)[1]) const { db[c] = float(total[0]); }
};

}  // namespace

size_t bias_gradient_workspace(const Shape& dy) {
    return sizeof(float) * size_t(sum_chunks(int64_t(dy.pixels()))) * size_t(dy.c);
}

void bias_gradient(const Tensor& dy, int channels, float* db, void* workspace, cudaStream_t stream) {
    const int64_t rows = int64_t(dy.shape.pixels());
    const int stored = dy.shape.c;
    float* partial = static_cast<float*>(workspace);
    if (rows > 0)
        with_layout(dy.dtype, stored, {dy.data}, [&](auto t, auto v) {
            using T = decltype(t);
            const RowGrid g = row_grid(stored / v, sum_chunks(rows));
            launch(column_sums<T, v>, g.grid, g.block, sum_shared_bytes<1, v>(g), stream, data_of<T>(dy), rows, stored,
                   partial);
        });
    launch_finish<1>(partial, rows, stored, channels, WriteBias{db}, stream);
}

}  // namespace convoy::kernels
