// Reads a batch of images, resident or staged, uint8 or f32: crop, flip, jitter, normalise and mix.
// One thread per pixel.
#include "kernels/elements.cuh"
#include "kernels/jitter.cuh"
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
    const Mix* mixes;       // [n], if images are mixed
    const Jitter* jitters;  // [n], or [n + 1] if images are mixed

    __device__ const From* image(int n, int64_t sample) const {
        const StagedBatch* b = samples.staged;
        if (!b) return images + sample * (int64_t(h) * w * c);
        return reinterpret_cast<const From*>(static_cast<const char*>(b->images) + samples.place(n).offset);
    }
    /// Returns the pixel [c] that image n shows in row i, column j; null for black.
    __device__ const From* pixel(int n, int64_t sample, int i, int j) const {
        const AugmentDraw draw = draw_augment(augment, seed, samples.epoch(), uint32_t(sample));
        const int row = source_index(augment, i, draw.dy, h),
                  column = source_index(augment, draw.mirror ? w - 1 - j : j, draw.dx, w);
        if (row < 0 || column < 0) return nullptr;
        return image(n, sample) + (int64_t(row) * w + column) * c;
    }
    /// Returns the pixel as red, green and blue.
    __device__ Colour colour(const From* pixel) const {
        return pixel ? Colour{float(pixel[0]), float(pixel[1]), float(pixel[2])} : Colour{};
    }
};

/// One pixel that an image of the batch shows, before images are mixed.
template <class From, bool Jittered> struct Seen {
    const From* pixel;
    Colour colour{};  // after jitter

    __device__ Seen(const Source<From>& s, int n, int64_t sample, int i, int j) : pixel(s.pixel(n, sample, i, j)) {
        if constexpr (Jittered) colour = jittered(s.jitters[n], s.colour(pixel));
    }
    __device__ float value(const Source<From>& s, int channel) const {
        if constexpr (Jittered)
            return colour.of(channel) * s.scale[channel] + s.shift[channel];
        else
            return (pixel ? float(pixel[channel]) : 0.0f) * s.scale[channel] + s.shift[channel];
    }
};

template <class From> __global__ void __launch_bounds__(jitter_threads) draw_jitters(Source<From> s, Jitter* jitters) {
    const int n = int(blockIdx.x);
    const int64_t sample = s.samples.sample(n);
    write_jitter(
        draw_jitter(s.augment, s.seed, s.samples.epoch(), uint32_t(sample)), s.h * s.w,
        [&](int i) { return s.colour(s.pixel(n, sample, i / s.w, i % s.w)); }, shared_memory<double>(), jitters + n);
}

template <class From, class T, int V, bool Mixed, bool Jittered>
__global__ void __launch_bounds__(block_threads)
    gather_pixels(Source<From> s, uint32_t pixels, int stored, T* x, int32_t* y) {
    const uint32_t pixel = uint32_t(global_index());
    if (pixel >= pixels) return;
    const int j = int(pixel % uint32_t(s.w)), i = int(pixel / uint32_t(s.w) % uint32_t(s.h)),
              n = int(pixel / uint32_t(s.w) / uint32_t(s.h));
    const int64_t sample = s.samples.sample(n);
    if (i == 0 && j == 0) y[n] = s.samples.label(n, sample);

    float share = 1;
    if constexpr (Mixed) share = s.mixes[n].own(i, j);
    const Seen<From, Jittered> own(s, n, sample, i, j),
        partner(s, n + Mixed, Mixed ? s.samples.sample(n + 1) : sample, i, j);
    for (int c = 0; c < stored; c += V) {
        float v[V] = {};
        for (int k = 0; k < V; ++k)
            if (c + k < s.c) {
                v[k] = own.value(s, c + k);
                if constexpr (Mixed) v[k] = share * v[k] + (1 - share) * partner.value(s, c + k);
            }
        store(v, x + int64_t(pixel) * stored + c);
    }
}

template <class From, bool Mixed, bool Jittered>
void gather_from(const Gather& g, const Source<From>& s, cudaStream_t stream) {
    const Shape out = g.x.shape;
    with_layout(g.x.dtype, out.c, {g.x.data}, [&](auto t, auto v) {
        using T = decltype(t);
        launch(gather_pixels<From, T, v, Mixed, Jittered>, dim3(blocks_for(int64_t(out.pixels()))), dim3(block_threads),
               0, stream, s, uint32_t(out.pixels()), out.c, data_of<T>(g.x), g.y.as<int32_t>());
    });
}

template <class From>
Source<From> source_of(const Gather& g, const float* scale, const float* shift, const BatchDraws& drawn) {
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
            .mixes = drawn.mixes,
            .jitters = drawn.jitters};
}

}  // namespace

void gather(const Gather& g, const float* scale, const float* shift, const BatchDraws& drawn, cudaStream_t stream) {
    const Shape in = g.images.shape, out = g.x.shape;
    require(in.h == out.h && in.w == out.w && in.c <= out.c, "gather: the batch does not fit the images");
    require(out.pixels() < size_t(1) << 31, "gather: the batch is too large");
    if (out.n == 0) return;
    if (g.images.dtype == DType::f32)  // values in f32 are neither mixed nor jittered
        return gather_from<float, false, false>(g, source_of<float>(g, scale, shift, {}), stream);
    const auto s = source_of<uint8_t>(g, scale, shift, drawn);
    if (drawn.jitters)
        launch(draw_jitters<uint8_t>, jitter_blocks(g, drawn), dim3(jitter_threads), jitter_threads * sizeof(double),
               stream, s, drawn.jitters);
    with_constants(drawn.mixes, drawn.jitters,
                   [&](auto mixed, auto jittered) { gather_from<uint8_t, mixed, jittered>(g, s, stream); });
}

}  // namespace convoy::kernels
