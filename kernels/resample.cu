// Reads a batch out of the resident images of any size: a window of each is resized with antialias,
// cut, mirrored and normalised, in one pass. A block has pixels of one image, one a thread.
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

struct Source {
    const uint8_t* images;
    const ImagePlace* places;  // null: all are [height, width, channels]
    int height, width, channels;
    const int32_t *labels, *order;
    const Counters* counters;
    int64_t first;
    const float *scale, *shift;  // [channels]
    Augment augment;
    uint64_t seed;

    __device__ ImagePlace place(int64_t sample) const {
        return places ? places[sample]
                      : ImagePlace{sample * height * width * channels, int32_t(height), int32_t(width)};
    }
};

/// What a block's threads have in common.
struct Drawn {
    ImagePlace place;
    Resampling what;
};

/// Channel `c` of a pixel, from 0 to 255.
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

template <class T, int V>
__global__ void __launch_bounds__(block_threads)
    resample_pixels(Source s, uint32_t tiles, int h, int w, int stored, T* x, int32_t* y) {
    Drawn* drawn = shared_memory<Drawn>();
    const uint32_t n = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    if (threadIdx.x == 0) {
        const int64_t position = s.counters->offset + s.first + n, sample = s.order ? s.order[position] : position;
        drawn->place = s.place(sample);
        drawn->what = draw_resampling(s.augment, drawn->place.height, drawn->place.width, h, w, s.seed,
                                      uint32_t(s.counters->epoch), uint32_t(sample));
        if (tile == 0) y[n] = s.labels[sample];
    }
    __syncthreads();
    const uint32_t pixel = tile * blockDim.x + threadIdx.x;
    if (pixel >= uint32_t(h * w)) return;
    const Resampling what = drawn->what;
    const int i = int(pixel) / w, j = int(pixel) % w;
    const Taps rows = taps_of(what.y + i, what.rows, what.height),
               columns = taps_of(what.x + (what.mirror ? w - 1 - j : j), what.columns, what.width);
    for (int c = 0; c < stored; c += V) {
        float v[V] = {};
        for (int k = 0; k < V; ++k)
            if (c + k < s.channels)
                v[k] = resampled(s.images + drawn->place.offset, drawn->place.width, s.channels, what, rows, columns,
                                 c + k) *
                           s.scale[c + k] +
                       s.shift[c + k];
        store(v, x + (int64_t(n) * h * w + pixel) * stored + c);
    }
}

}  // namespace

void resample(const Gather& g, const float* scale, const float* shift, cudaStream_t stream) {
    const Shape in = g.images.shape, out = g.x.shape;
    const auto tiles = uint32_t((out.h * out.w + block_threads - 1) / block_threads);
    require(in.c <= out.c && int64_t(out.n) * tiles < INT32_MAX, "resample: the batch does not fit the images");
    if (out.n == 0) return;
    const Source s{g.images.as<uint8_t>(),
                   g.places,
                   in.h,
                   in.w,
                   in.c,
                   g.labels.as<int32_t>(),
                   g.order,
                   g.counters,
                   g.first,
                   scale,
                   shift,
                   g.augment,
                   g.seed};
    with_layout(g.x.dtype, out.c, {g.x.data}, [&](auto t, auto v) {
        using T = decltype(t);
        launch(resample_pixels<T, v>, dim3(uint32_t(out.n) * tiles), dim3(block_threads), sizeof(Drawn), stream, s,
               tiles, out.h, out.w, out.c, data_of<T>(g.x), g.y.as<int32_t>());
    });
}

}  // namespace convoy::kernels
