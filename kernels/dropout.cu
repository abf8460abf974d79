// Dropout: backward draws the mask again instead of storing it. Four neighbouring draws share one
// Philox block.
#include "kernels/kernels.h"
#include "kernels/rows.cuh"

namespace convoy::kernels {
namespace {

struct Mask {
    uint64_t seed;
    uint32_t purpose;
    float p;
    bool whole_channels;
    int64_t first;
    const Counters* counters;
};

template <class T, int V>
__global__ void __launch_bounds__(block_threads)
    drop(Mask mask, int64_t rows, uint32_t pixels, int stored, int channels, const T* in, T* out, bool accumulate) {
    const int channel = first_channel<V>();
    if (channel >= stored) return;
    const uint32_t step = uint32_t(mask.counters->step);
    const float scale = 1 / (1 - mask.p);
    each_row(rows, [&](int64_t row) {
        const uint32_t n = uint32_t(row) / pixels, pixel = uint32_t(row) % pixels;
        const int64_t draw = (mask.whole_channels ? 0 : int64_t(pixel) * channels) + channel;  // the first element's
        float v[V];
        load(in + row * stored + channel, v);
        Random4 r{};
        for (int k = 0; k < V; ++k) {
            const int64_t d = draw + k;
            if (k == 0 || d % 4 == 0)
                r = philox(mask.seed, uint32_t(d / 4), uint32_t(mask.first + n), step, mask.purpose);
            const uint32_t word = d & 2 ? (d & 1 ? r.word[3] : r.word[2])
                                        : (d & 1 ? r.word[1] : r.word[0]);  // an index would move them out of registers
            const bool kept = channel + k < channels && uniform01(word) >= mask.p;
            v[k] *= kept ? scale : 0.0f;
        }
        store(v, out + row * stored + channel, accumulate);
    });
}

}  // namespace

void dropout(const Dropout& op, const Tensor& in, const Tensor& out, int channels, uint64_t seed, int64_t first,
             const Counters* counters, bool accumulate, cudaStream_t stream) {
    require(in.shape == out.shape && in.dtype == out.dtype && channels <= in.shape.c, "dropout: shapes do not fit");
    require(in.shape.pixels() < size_t(1) << 31, "dropout: the batch is too large");
    const int64_t rows = int64_t(in.shape.pixels());
    if (rows == 0) return;
    const Mask mask{seed, purpose_dropout + uint32_t(op.stream), op.p, op.whole_channels, first, counters};
    with_layout(in.dtype, in.shape.c, {in.data, out.data}, [&](auto t, auto v) {
        using T = decltype(t);
        const RowGrid g = row_grid(in.shape.c / v, rows, int64_t(1) << 20);
        launch(drop<T, v>, g.grid, g.block, 0, stream, mask, rows, uint32_t(in.shape.h) * uint32_t(in.shape.w),
               in.shape.c, channels, data_of<T>(in), data_of<T>(out), accumulate);
    });
}

}  // namespace convoy::kernels
