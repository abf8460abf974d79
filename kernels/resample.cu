// Reads a batch of images of any size, resident or staged. In one pass a window of each is resized
// with antialias, cut, mirrored, jittered, normalised and mixed. A block has pixels of one image,
// one per thread.
#include "kernels/elements.cuh"
#include "kernels/jitter.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"
#include "kernels/samples.cuh"

namespace convoy::kernels {
namespace {

struct Source {
    Samples samples;
    const uint8_t* images;
    const ImagePlace* places;  // null: all are [height, width, channels]
    int height, width, channels;
    const float *scale, *shift;  // [channels]
    Augment augment;
    uint64_t seed;
    const Mix* mixes;       // [n], if images are mixed
    const Jitter* jitters;  // [n], or [n + 1] if images are mixed

    __device__ ImagePlace place(int n, int64_t sample) const {
        if (samples.staged) return samples.place(n);
        return places ? places[sample]
                      : ImagePlace{sample * height * width * channels, int32_t(height), int32_t(width)};
    }
    __device__ const uint8_t* pixels() const {
        return samples.staged ? static_cast<const uint8_t*>(samples.staged->images) : images;
    }
};

/// The window of an image that an output shows; shared by the threads of a block.
struct Drawn {
    const uint8_t* image;
    int width;
    Resampling what;
};

__device__ Drawn draw(const Source& s, int n, int64_t sample, int h, int w) {
    const ImagePlace place = s.place(n, sample);
    return {s.pixels() + place.offset, place.width,
            draw_resampling(s.augment, place.height, place.width, h, w, s.seed, s.samples.epoch(), uint32_t(sample))};
}

/// Returns channel `c` of a pixel, from 0 to 255.
__device__ float resampled(const uint8_t* image, int width, int channels, const Resampling& what, const Taps& rows,
                           const Taps& columns, int c) {
    float sum = 0;
    for (int k = 0; k < rows.count; ++k) {
        const int64_t at = int64_t(what.top + rows.first + k) * width + what.left + columns.first;
        const uint8_t* from = image + at * channels + c;
        float line = 0;
        for (int l = 0; l < columns.count; ++l) line += columns.triangle(l) * float(from[l * channels]);
        sum += rows.triangle(k) * line;
    }
    return sum / (rows.total * columns.total);
}

/// One pixel of the output that a Drawn describes.
struct Pixel {
    const Drawn& drawn;
    const Taps rows, columns;

    __device__ Pixel(const Drawn& d, int i, int j, int w)
        : drawn(d),
          rows(taps_of(d.what.y + i, d.what.rows, d.what.height)),
          columns(taps_of(d.what.x + (d.what.mirror ? w - 1 - j : j), d.what.columns, d.what.width)) {}
    __device__ float value(const Source& s, int c) const {
        return resampled(drawn.image, drawn.width, s.channels, drawn.what, rows, columns, c);
    }
    /// Returns the pixel as red, green and blue.
    __device__ Colour colour(const Source& s) const { return {value(s, 0), value(s, 1), value(s, 2)}; }
};

/// The pixel after jitter; value() normalises it.
template <bool Jittered> struct Seen {
    const Pixel pixel;
    Colour colour{};  // after jitter

    __device__ Seen(const Source& s, const Drawn& drawn, int n, int i, int j, int w) : pixel(drawn, i, j, w) {
        if constexpr (Jittered) colour = jittered(s.jitters[n], pixel.colour(s));
    }
    __device__ float value(const Source& s, int c) const {
        if constexpr (Jittered)
            return colour.of(c) * s.scale[c] + s.shift[c];
        else
            return pixel.value(s, c) * s.scale[c] + s.shift[c];
    }
};

__global__ void __launch_bounds__(jitter_threads) draw_jitters(Source s, int h, int w, Jitter* jitters) {
    Drawn* drawn = shared_memory<Drawn>();
    const int n = int(blockIdx.x);
    const int64_t sample = s.samples.sample(n);
    if (threadIdx.x == 0) *drawn = draw(s, n, sample, h, w);
    __syncthreads();
    write_jitter(
        draw_jitter(s.augment, s.seed, s.samples.epoch(), uint32_t(sample)), h * w,
        [&](int i) { return Pixel(*drawn, i / w, i % w, w).colour(s); }, reinterpret_cast<double*>(drawn + 1),
        jitters + n);
}

template <class T, int V, bool Mixed, bool Jittered>
__global__ void __launch_bounds__(block_threads)
    resample_pixels(Source s, uint32_t tiles, int h, int w, int stored, T* x, int32_t* y) {
    Drawn* drawn = shared_memory<Drawn>();  // the image's, and its partner's
    const uint32_t tile = blockIdx.x % tiles;
    const int n = int(blockIdx.x / tiles);
    if (const int of = int(threadIdx.x); of < (Mixed ? 2 : 1)) {
        const int64_t sample = s.samples.sample(n + of);
        drawn[of] = draw(s, n + of, sample, h, w);
        if (tile == 0 && of == 0) y[n] = s.samples.label(n, sample);
    }
    __syncthreads();
    const uint32_t pixel = tile * blockDim.x + threadIdx.x;
    if (pixel >= uint32_t(h * w)) return;
    const int i = int(pixel) / w, j = int(pixel) % w;
    float share = 1;
    if constexpr (Mixed) share = s.mixes[n].own(i, j);
    const Seen<Jittered> own(s, drawn[0], n, i, j, w), partner(s, drawn[Mixed ? 1 : 0], n + Mixed, i, j, w);
    T* const to = x + (int64_t(n) * h * w + pixel) * stored;
    for (int c = 0; c < stored; c += V) {
        float v[V] = {};
        for (int k = 0; k < V; ++k)
            if (c + k < s.channels) {
                v[k] = own.value(s, c + k);
                if constexpr (Mixed) v[k] = share * v[k] + (1 - share) * partner.value(s, c + k);
            }
        store(v, to + c);
    }
}

template <bool Mixed, bool Jittered>
void resample_all(const Gather& g, const Source& s, uint32_t tiles, cudaStream_t stream) {
    const Shape out = g.x.shape;
    with_layout(g.x.dtype, out.c, {g.x.data}, [&](auto t, auto v) {
        using T = decltype(t);
        launch(resample_pixels<T, v, Mixed, Jittered>, dim3(uint32_t(out.n) * tiles), dim3(block_threads),
               (Mixed ? 2 : 1) * sizeof(Drawn), stream, s, tiles, out.h, out.w, out.c, data_of<T>(g.x),
               g.y.as<int32_t>());
    });
}

}  // namespace

void resample(const Gather& g, const float* scale, const float* shift, const BatchDraws& drawn, cudaStream_t stream) {
    const Shape in = g.images.shape, out = g.x.shape;
    const auto tiles = uint32_t((out.h * out.w + block_threads - 1) / block_threads);
    require(in.c <= out.c && int64_t(out.n) * tiles < INT32_MAX, "resample: the batch does not fit the images");
    if (out.n == 0) return;
    const Source s{.samples = Samples(g),
                   .images = g.images.as<uint8_t>(),
                   .places = g.places,
                   .height = in.h,
                   .width = in.w,
                   .channels = in.c,
                   .scale = scale,
                   .shift = shift,
                   .augment = g.augment,
                   .seed = g.seed,
                   .mixes = drawn.mixes,
                   .jitters = drawn.jitters};
    if (drawn.jitters)
        launch(draw_jitters, jitter_blocks(g, drawn), dim3(jitter_threads),
               sizeof(Drawn) + jitter_threads * sizeof(double), stream, s, out.h, out.w, drawn.jitters);
    with_constants(drawn.mixes, drawn.jitters,
                   [&](auto mixed, auto jittered) { resample_all<mixed, jittered>(g, s, tiles, stream); });
}

}  // namespace convoy::kernels
