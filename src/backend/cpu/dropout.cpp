// Dropout. The mask is a function of (seed, step, position in the global batch, element), so backward draws it again
// instead of storing it, and it does not depend on the number of ranks.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/rows.h"

namespace convoy {
namespace {

struct Mask {
    uint64_t seed;
    uint32_t purpose;
    float p;
    bool whole_channels;
    Shape shape;
    int64_t first;
    const Counters* counters;

    /// out = in where the draw keeps it, scaled by 1 / (1 - p), else 0; added to out if `add`. Four elements share one
    /// Philox block; with whole_channels four channels do, over all pixels.
    template <class E> void apply(const E* in, E* out, bool add) const {
        const int64_t pixels = whole_channels ? int64_t(shape.h) * shape.w : 1;
        const int64_t draws = whole_channels ? shape.c : int64_t(shape.h) * shape.w * shape.c;
        const uint32_t step = uint32_t(counters->step);
#pragma omp parallel for schedule(static)
        for (int n = 0; n < shape.n; ++n)
            for (int64_t d = 0; d < draws; d += 4) {
                const Random4 r = philox(seed, uint32_t(d / 4), uint32_t(first + n), step, purpose);
                float factor[4];
                for (int k = 0; k < 4; ++k) factor[k] = uniform01(r.word[k]) >= p ? 1 / (1 - p) : 0.0f;
                const int64_t width = std::min<int64_t>(4, draws - d);
                for (int64_t i = 0; i < pixels; ++i)
                    for (int64_t k = 0; k < width; ++k) {
                        const int64_t at = (n * pixels + i) * draws + d + k;
                        assign(out[at], (add ? to_float(out[at]) : 0.0f) + factor[k] * to_float(in[at]));
                    }
            }
    }
};

Mask mask_of(const Dropout& op, const Bound& b) {
    return {b.seed, purpose_dropout + uint32_t(op.stream), op.p, op.whole_channels, b.values[op.x].shape, b.first, b.counters};
}

}  // namespace

void CpuBackend::forward(const Dropout& op, const Bound& b, Tape& tape) {
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const E* x = b.values[op.x].as<E>();
        E* y = b.values[op.y].as<E>();
        if (!b.training) {
            tape.push_back({"dropout (identity) " + b.name, Lane::compute, [x, y, n = b.values[op.x].count()] { std::copy_n(x, n, y); }});
            return;
        }
        tape.push_back({"dropout " + b.name, Lane::compute, [mask = mask_of(op, b), x, y] { mask.apply(x, y, false); }});
    });
}

void CpuBackend::backward(const Dropout& op, const Bound& b, Tape& tape) {
    if (!b.value_gradients[op.x].data) return;
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const E* dy = b.value_gradients[op.y].as<E>();
        E* dx = b.value_gradients[op.x].as<E>();
        tape.push_back({"dropout gradient " + b.name, Lane::compute,
                        [mask = mask_of(op, b), dy, dx, add = bool(b.accumulate[op.x])] { mask.apply(dy, dx, add); }});
    });
}

}  // namespace convoy
