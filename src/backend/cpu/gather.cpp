// Reads a batch of images, resident or staged, uint8 or f32: crop, resize, flip and normalise in
// one pass. Jitter precedes normalising, in separate passes. A mixed image is made of two images
// read in this way.
#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/jitter.h"
#include "backend/cpu/rows.h"

namespace convoy::cpu {
namespace {

/// Constants that normalise a row of pixels, [w * c] each: v becomes v * scale + shift.
struct Normalise {
    std::vector<float> scale, shift;
    explicit Normalise(const Gather& g) {
        for (int i = 0; i < g.x.shape.w; ++i)
            for (size_t c = 0; c < g.mean.size(); ++c) {
                scale.push_back(g.scale(c));
                shift.push_back(g.shift(c));
            }
    }
    /// Makes constants that leave `count` elements unchanged.
    explicit Normalise(size_t count) : scale(count, 1), shift(count, 0) {}
};

template <class From, class E>
CONVOY_WIDE void normalise(const From* from, int count, const float* __restrict scale, const float* __restrict shift,
                           E* to) {
#pragma omp simd
    for (int i = 0; i < count; ++i) assign(to[i], float(from[i]) * scale[i] + shift[i]);
}

/// An image, and its index in the split.
struct Sample {
    const uint8_t* pixels;  // u8 or f32 [height, width, c]
    int height, width;
    uint32_t number;
    int32_t label;
};

/// Returns image `i` of the batch or, if `i` is the batch size, the partner of the last image.
Sample sample_of(const Gather& g, int i) {
    if (const StagedBatch* b = g.staged) {
        const int64_t at = i + g.staged_first;
        const ImagePlace p = b->places[at];
        return {.pixels = static_cast<const uint8_t*>(b->images) + p.offset,
                .height = p.height,
                .width = p.width,
                .number = uint32_t(b->samples[at]),
                .label = b->labels[at]};
    }
    const Shape s = g.images.shape;
    const int64_t position = g.counters->offset + g.position(i), n = g.order ? g.order[position] : position;
    const ImagePlace p =
        g.places ? g.places[n] : ImagePlace{n * s.h * s.w * s.c * int64_t(size_of(g.images.dtype)), s.h, s.w};
    return {.pixels = static_cast<const uint8_t*>(g.images.data) + p.offset,
            .height = p.height,
            .width = p.width,
            .number = uint32_t(n),
            .label = g.labels.as<int32_t>()[n]};
}

template <class From, class E> void gather_from(const Gather& g, const Sample& sample, const Normalise& by, E* to) {
    const Shape s = g.x.shape;
    const auto* image = reinterpret_cast<const From*>(sample.pixels);
    const float *scale = by.scale.data(), *shift = by.shift.data();
    const AugmentDraw draw = draw_augment(g.augment, g.seed, uint32_t(g.counters->epoch), sample.number);
    // Columns [begin, end) are contiguous in the image; the others are mirrored, reflected or
    // black.
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

/// Scratch of one thread.
struct Scratch {
    Resampler resampler;
    std::vector<float> line;
    std::vector<float> own, partner;  // mixed images: [h, w, c] each
    std::vector<float> colours;       // a jittered image: [h, w, c], from 0 to 255
    Normalise unchanged{0};           // for a row of `colours`
};

template <class E> void resample(const Gather& g, const Sample& sample, const Normalise& by, Scratch& scratch, E* to) {
    const Shape out = g.x.shape;
    const Resampling what = draw_resampling(g.augment, sample.height, sample.width, out.h, out.w, g.seed,
                                            uint32_t(g.counters->epoch), sample.number);
    scratch.line.resize(size_t(out.w * out.c));
    scratch.resampler.begin(sample.pixels, sample.width, g.images.shape.c, what, out.w);
    for (int i = 0; i < out.h; ++i, to += out.w * out.c) {
        scratch.resampler.row(i, scratch.line.data());
        normalise(scratch.line.data(), out.w * out.c, by.scale.data(), by.shift.data(), to);
    }
}

template <class E>
void read_sample(const Gather& g, const Sample& sample, const Normalise& by, Scratch& scratch, E* to) {
    if (g.augment.crop != Crop::shifted)
        resample(g, sample, by, scratch, to);
    else if (g.images.dtype == DType::f32)
        gather_from<float, E>(g, sample, by, to);
    else
        gather_from<uint8_t, E>(g, sample, by, to);
}

/// Writes a sample to row `to` of the batch.
template <class E>
void gather_sample(const Gather& g, const Sample& sample, const Normalise& by, Scratch& scratch, E* to) {
    if (!g.augment.jitters()) return read_sample(g, sample, by, scratch, to);
    const Shape s = g.x.shape;
    const int row = s.w * s.c;
    if (scratch.colours.empty()) scratch.unchanged = Normalise(size_t(row));
    scratch.colours.resize(size_t(s.h * row));
    float* const colours = scratch.colours.data();
    read_sample(g, sample, scratch.unchanged, scratch, colours);
    jitter_image(draw_jitter(g.augment, g.seed, uint32_t(g.counters->epoch), sample.number), colours, s.h * s.w);
    for (int i = 0; i < s.h; ++i) normalise(colours + i * row, row, by.scale.data(), by.shift.data(), to + i * row);
}

/// Does the same for image `i` mixed with its partner. Writes the partner's label and i's share.
template <class E> void gather_mixed(const Gather& g, int i, const Normalise& by, Scratch& scratch, E* to) {
    const Shape s = g.x.shape;
    const Sample own = sample_of(g, i), partner = sample_of(g, i + 1);
    for (const auto& [sample, image] : {std::pair{&own, &scratch.own}, {&partner, &scratch.partner}}) {
        image->resize(size_t(s.h * s.w * s.c));
        gather_sample(g, *sample, by, scratch, image->data());
    }
    const Mix mix = draw_mix(g.augment, s.h, s.w, g.seed, uint32_t(g.counters->epoch), own.number);
    size_t k = 0;
    for (int row = 0; row < s.h; ++row)
        for (int column = 0; column < s.w; ++column) {
            const float share = mix.own(row, column);
            for (int c = 0; c < s.c; ++c, ++k) assign(to[k], share * scratch.own[k] + (1 - share) * scratch.partner[k]);
        }
    g.mixed.partners[i] = partner.label;
    g.mixed.shares[i] = mix.share;
}

}  // namespace

void CpuBackend::gather(const Gather& g, Tape& tape) {
    g.check();
    with_type(g.x.dtype, [&]<class E>(E) {
        tape.push_back({named_launch(LaunchPhase::gather, "gather"), Resource::compute,
                        [this, g, by = Normalise(g), scratch = std::vector<Scratch>(size_t(threads_))]() mutable {
                            if (g.begins_step && !g.staged) clock_->started = now();  // else begin_step() did
                            const int64_t elements = int64_t(g.x.shape.h) * g.x.shape.w * g.x.shape.c;
#pragma omp parallel for schedule(static)
                            for (int i = 0; i < g.x.shape.n; ++i) {
                                const Sample sample = sample_of(g, i);
                                Scratch& own = scratch[omp_get_thread_num()];
                                E* const to = g.x.as<E>() + i * elements;
                                if (g.augment.mixes())
                                    gather_mixed(g, i, by, own, to);
                                else
                                    gather_sample(g, sample, by, own, to);
                                g.y.as<int32_t>()[i] = sample.label;
                            }
                            if (g.begins_step) clock_->gathered = now();
                        }});
    });
}

}  // namespace convoy::cpu
