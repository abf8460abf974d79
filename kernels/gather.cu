// Reads a batch out of the resident images, of uint8 or f32: crop, flip, normalise. One thread a
// pixel.
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

template <class From> struct Source {
    const From* images;  // [N, h, w, c]
    const int32_t *labels, *order;
    const Counters* counters;
    int64_t first;
    const float *scale, *shift;  // [c]
    Augment augment;
    uint64_t seed;
    int h, w, c;
};

template <class From, class T, int V>
__global__ void __launch_bounds__(block_threads)
    gather_pixels(Source<From> s, uint32_t pixels, int stored, T* x, int32_t* y) {
    const uint32_t pixel = uint32_t(global_index());
    if (pixel >= pixels) return;
    const int j = int(pixel % uint32_t(s.w)), i = int(pixel / uint32_t(s.w) % uint32_t(s.h)),
              n = int(pixel / uint32_t(s.w) / uint32_t(s.h));
    const int64_t position = s.counters->offset + s.first + n, sample = s.order ? s.order[position] : position;
    if (i == 0 && j == 0) y[n] = s.labels[sample];

    const AugmentDraw draw = draw_augment(s.augment, s.seed, uint32_t(s.counters->epoch), uint32_t(sample));
    const int row = source_index(s.augment, i, draw.dy, s.h),
              column = source_index(s.augment, draw.mirror ? s.w - 1 - j : j, draw.dx, s.w);
    const bool black = row < 0 || column < 0;
    const From* from = s.images + (black ? 0 : ((sample * s.h + row) * s.w + column) * s.c);
    for (int c = 0; c < stored; c += V) {
        float v[V] = {};
        for (int k = 0; k < V; ++k)
            if (c + k < s.c) v[k] = (black ? 0.0f : float(from[c + k])) * s.scale[c + k] + s.shift[c + k];
        store(v, x + int64_t(pixel) * stored + c);
    }
}

template <class From> void gather_from(const Gather& g, const float* scale, const float* shift, cudaStream_t stream) {
    const Shape in = g.images.shape, out = g.x.shape;
    const Source<From> s{g.images.as<From>(),
                         g.labels.as<int32_t>(),
                         g.order,
                         g.counters,
                         g.first,
                         scale,
                         shift,
                         g.augment,
                         g.seed,
                         in.h,
                         in.w,
                         in.c};
    with_layout(g.x.dtype, out.c, {g.x.data}, [&](auto t, auto v) {
        using T = decltype(t);
        launch(gather_pixels<From, T, v>, dim3(blocks_for(int64_t(out.pixels()))), dim3(block_threads), 0, stream, s,
               uint32_t(out.pixels()), out.c, data_of<T>(g.x), g.y.as<int32_t>());
    });
}

}  // namespace

void gather(const Gather& g, const float* scale, const float* shift, cudaStream_t stream) {
    const Shape in = g.images.shape, out = g.x.shape;
    require(in.h == out.h && in.w == out.w && in.c <= out.c, "gather: the batch does not fit the images");
    require(out.pixels() < size_t(1) << 31, "gather: the batch is too large");
    if (out.n == 0) return;
    if (g.images.dtype == DType::f32)
        gather_from<float>(g, scale, shift, stream);
    else
        gather_from<uint8_t>(g, scale, shift, stream);
}

}  // namespace convoy::kernels
