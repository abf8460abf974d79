// Reads a batch out of the resident uint8 images: crop, flip, normalise, in one pass.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/rows.h"

namespace convoy {
namespace {

template <class E> void gather_sample(const Gather& g, int64_t sample, const float* scale, const float* shift, E* to) {
    const Shape s = g.x.shape;
    const uint8_t* image = g.images.as<uint8_t>() + sample * s.h * s.w * s.c;
    const AugmentDraw draw = draw_augment(g.augment, g.seed, uint32_t(g.counters->epoch), uint32_t(sample));
    for (int i = 0; i < s.h; ++i) {
        const int row = source_index(g.augment, i, draw.dy, s.h);
        for (int j = 0; j < s.w; ++j, to += s.c) {
            const int column = source_index(g.augment, draw.mirror ? s.w - 1 - j : j, draw.dx, s.w);
            if (row < 0 || column < 0) {
                for (int c = 0; c < s.c; ++c) assign(to[c], shift[c]);  // black
                continue;
            }
            const uint8_t* from = image + (int64_t(row) * s.w + column) * s.c;
            for (int c = 0; c < s.c; ++c) assign(to[c], float(from[c]) * scale[c] + shift[c]);
        }
    }
}

}  // namespace

void CpuBackend::gather(const Gather& g, Tape& tape) {
    std::vector<float> scale, shift;  // (v / 255 - mean) / stddev = v * scale + shift
    for (size_t c = 0; c < g.mean.size(); ++c) {
        scale.push_back(1 / (255 * g.stddev[c]));
        shift.push_back(-g.mean[c] / g.stddev[c]);
    }
    with_type(g.x.dtype, [&]<class E>(E) {
        tape.push_back({"gather", Lane::compute, [this, g, scale, shift] {
                            step_started_ = now();
                            const int64_t start = g.counters->offset + g.first, elements = int64_t(g.x.shape.h) * g.x.shape.w * g.x.shape.c;
#pragma omp parallel for schedule(static)
                            for (int i = 0; i < g.x.shape.n; ++i) {
                                const int64_t sample = g.order ? g.order[start + i] : start + i;
                                gather_sample(g, sample, scale.data(), shift.data(), g.x.as<E>() + i * elements);
                                g.y.as<int32_t>()[i] = g.labels.as<int32_t>()[sample];
                            }
                            gathered_ = now();
                        }});
    });
}

}  // namespace convoy
