// Reads a batch out of the resident images, of uint8 or f32: crop, resize, flip, normalise, in one
// pass.
#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/rows.h"

namespace convoy::cpu {
namespace {

/// v normalised is v * scale + shift; [w * c], of the channels of a row of pixels.
struct Normalise {
    std::vector<float> scale, shift;
    explicit Normalise(const Gather& g) {
        for (int i = 0; i < g.x.shape.w; ++i)
            for (size_t c = 0; c < g.mean.size(); ++c) {
                scale.push_back(g.scale(c));
                shift.push_back(g.shift(c));
            }
    }
};

template <class From, class E>
CONVOY_WIDE void normalise(const From* from, int count, const float* __restrict scale, const float* __restrict shift,
                           E* to) {
#pragma omp simd
    for (int i = 0; i < count; ++i) assign(to[i], float(from[i]) * scale[i] + shift[i]);
}

template <class From, class E> void gather_from(const Gather& g, int64_t sample, const Normalise& by, E* to) {
    const Shape s = g.x.shape;
    const From* image = g.images.as<From>() + sample * s.h * s.w * s.c;
    const float *scale = by.scale.data(), *shift = by.shift.data();
    const AugmentDraw draw = draw_augment(g.augment, g.seed, uint32_t(g.counters->epoch), uint32_t(sample));
    // Columns [begin, end) are contiguous in the image; the others are mirrored,
    // reflected or black.
    const int begin = draw.mirror ? s.w : std::clamp(-draw.dx, 0, s.w),
              end = draw.mirror ? s.w : std::clamp(s.w - draw.dx, begin, s.w);
    for (int i = 0; i < s.h; ++i, to += s.w * s.c) {
        const int row = source_index(g.augment, i, draw.dy, s.h);
        if (row < 0) {
            for (int k = 0; k < s.w * s.c; ++k) assign(to[k], shift[k]);  // black
            continue;
        }
        const From* line = image + int64_t(row) * s.w * s.c;
        const auto pixel = [&](int j) {
            const int column = source_index(g.augment, draw.mirror ? s.w - 1 - j : j, draw.dx, s.w);
            for (int c = 0; c < s.c; ++c)
                assign(to[j * s.c + c], column < 0 ? shift[c] : float(line[column * s.c + c]) * scale[c] + shift[c]);
        };
        for (int j = 0; j < begin; ++j) pixel(j);
        normalise(line + (begin + draw.dx) * s.c, (end - begin) * s.c, scale, shift, to + begin * s.c);
        for (int j = end; j < s.w; ++j) pixel(j);
    }
}

/// What a thread resamples with.
struct Scratch {
    Resampler resampler;
    std::vector<float> line;
};

template <class E> void resample(const Gather& g, int64_t sample, const Normalise& by, Scratch& scratch, E* to) {
    const Shape in = g.images.shape, out = g.x.shape;
    const ImagePlace place = g.places ? g.places[sample] : ImagePlace{sample * in.h * in.w * in.c, in.h, in.w};
    const Resampling what = draw_resampling(g.augment, place.height, place.width, out.h, out.w, g.seed,
                                            uint32_t(g.counters->epoch), uint32_t(sample));
    scratch.line.resize(size_t(out.w * out.c));
    scratch.resampler.begin(g.images.as<uint8_t>() + place.offset, place.width, in.c, what, out.w);
    for (int i = 0; i < out.h; ++i, to += out.w * out.c) {
        scratch.resampler.row(i, scratch.line.data());
        normalise(scratch.line.data(), out.w * out.c, by.scale.data(), by.shift.data(), to);
    }
}

/// Sample `sample` becomes row `to` of the batch.
template <class E> void gather_sample(const Gather& g, int64_t sample, const Normalise& by, Scratch& scratch, E* to) {
    if (g.augment.crop != Crop::shifted)
        resample(g, sample, by, scratch, to);
    else if (g.images.dtype == DType::f32)
        gather_from<float, E>(g, sample, by, to);
    else
        gather_from<uint8_t, E>(g, sample, by, to);
}

}  // namespace

void CpuBackend::gather(const Gather& g, Tape& tape) {
    g.check();
    with_type(g.x.dtype, [&]<class E>(E) {
        tape.push_back({named_step(StepPhase::gather, "gather"), Lane::compute,
                        [this, g, by = Normalise(g), scratch = std::vector<Scratch>(size_t(threads()))]() mutable {
                            step_started_ = now();
                            const int64_t start = g.counters->offset + g.first,
                                          elements = int64_t(g.x.shape.h) * g.x.shape.w * g.x.shape.c;
#pragma omp parallel for schedule(static)
                            for (int i = 0; i < g.x.shape.n; ++i) {
                                const int64_t sample = g.order ? g.order[start + i] : start + i;
                                gather_sample(g, sample, by, scratch[size_t(omp_get_thread_num())],
                                              g.x.as<E>() + i * elements);
                                g.y.as<int32_t>()[i] = g.labels.as<int32_t>()[sample];
                            }
                            gathered_ = now();
                        }});
    });
}

}  // namespace convoy::cpu
