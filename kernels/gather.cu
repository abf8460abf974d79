// Reads a batch of images, resident or staged, of uint8 or f32: crop, flip, normalise, mix. One
// thread a pixel.
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"
#include "kernels/samples.cuh"

namespace convoy::kernels {
namespace {

template <class From> struct Source {
    Samples samples;
    const From* images;          // [N, h, w, c]
    const float *scale, *shift;  // [c]
    Augment augment;
    uint64_t seed;
    int h, w, c;
    const Mix* mixes;  // [n] of images that are mixed

    __device__ const From* image(int n, int64_t sample) const {
        const StagedBatch* b = samples.staged;
        if (!b) return images + sample * (int64_t(h) * w * c);
        return reinterpret_cast<const From*>(static_cast<const char*>(b->images) + b->places[n].offset);
    }
    /// What image n shows in row i, column j: [c], or null for black.
    __device__ const From* pixel(int n, int64_t sample, int i, int j) const {
        const AugmentDraw draw = draw_augment(augment, seed, samples.epoch(), uint32_t(sample));
        const int row = source_index(augment, i, draw.dy, h),
                  column = source_index(augment, draw.mirror ? w - 1 - j : j, draw.dx, w);
        if (row < 0 || column < 0) return nullptr;
        return image(n, sample) + (int64_t(row) * w + column) * c;
    }
    __device__ float value(const From* pixel, int channel) const {
        return (pixel ? float(pixel[channel]) : 0.0f) * scale[channel] + shift[channel];
    }
};

template <class From, class T, int V, bool Mixed>
__global__ void __launch_bounds__(block_threads)
    gather_pixels(Source<From> s, uint32_t pixels, int stored, T* x, int32_t* y) {
    const uint32_t pixel = uint32_t(global_index());
    if (pixel >= pixels) return;
    const int j = int(pixel % uint32_t(s.w)), i = int(pixel / uint32_t(s.w) % uint32_t(s.h)),
              n = int(pixel / uint32_t(s.w) / uint32_t(s.h));
    const int64_t sample = s.samples.sample(n);
    if (i == 0 && j == 0) y[n] = s.samples.label(n, sample);

    const From *own = s.pixel(n, sample, i, j), *partner = nullptr;
    float share = 1;
    if constexpr (Mixed) {
        share = s.mixes[n].own(i, j);
        partner = s.pixel(n + 1, s.samples.sample(n + 1), i, j);
    }
    for (int c = 0; c < stored; c += V) {
        float v[V] = {};
        for (int k = 0; k < V; ++k)
            if (c + k < s.c) {
                v[k] = s.value(own, c + k);
                if constexpr (Mixed) v[k] = share * v[k] + (1 - share) * s.value(partner, c + k);
            }
        store(v, x + int64_t(pixel) * stored + c);
    }
}

template <class From, bool Mixed> void gather_from(const Gather& g, const Source<From>& s, cudaStream_t stream) {
    const Shape out = g.x.shape;
    with_layout(g.x.dtype, out.c, {g.x.data}, [&](auto t, auto v) {
        using T = decltype(t);
        launch(gather_pixels<From, T, v, Mixed>, dim3(blocks_for(int64_t(out.pixels()))), dim3(block_threads), 0,
               stream, s, uint32_t(out.pixels()), out.c, data_of<T>(g.x), g.y.as<int32_t>());
    });
}

template <class From>
Source<From> source_of(const Gather& g, const float* scale, const float* shift, const Mix* mixes) {
    const Shape in = g.images.shape;
    return {.samples = Samples(g),
            .images = g.images.as<From>(),
            .scale = scale,
            .shift = shift,
            .augment = g.augment,
            .seed = g.seed,
            .h = in.h,
            .w = in.w,
            .c = in.c,
            .mixes = mixes};
}

}  // namespace

void gather(const Gather& g, const float* scale, const float* shift, const Mix* mixes, cudaStream_t stream) {
    const Shape in = g.images.shape, out = g.x.shape;
    require(in.h == out.h && in.w == out.w && in.c <= out.c, "gather: the batch does not fit the images");
    require(out.pixels() < size_t(1) << 31, "gather: the batch is too large");
    if (out.n == 0) return;
    if (g.images.dtype == DType::f32)  // numbers are not mixed
        gather_from<float, false>(g, source_of<float>(g, scale, shift, nullptr), stream);
    else if (mixes)
        gather_from<uint8_t, true>(g, source_of<uint8_t>(g, scale, shift, mixes), stream);
    else
        gather_from<uint8_t, false>(g, source_of<uint8_t>(g, scale, shift, nullptr), stream);
}

}  // namespace convoy::kernels
