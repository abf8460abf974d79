// Dropout. The mask depends only on (seed, step, position in the global batch, element). So
// backward draws it again instead of storing it, and it does not depend on the number of ranks.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/rows.h"

namespace convoy::cpu {
namespace {

/// Computes out = in * factor [c], or out +=, for each row.
template <class E>
CONVOY_WIDE void scale_rows(const E* in, int64_t rows, int64_t c, const float* __restrict factor, E* out, bool add) {
    for (int64_t r = 0; r < rows; ++r, in += c, out += c) {
        if (add) {
#pragma omp simd
            for (int64_t i = 0; i < c; ++i) assign(out[i], to_float(out[i]) + factor[i] * to_float(in[i]));
        } else {
#pragma omp simd
            for (int64_t i = 0; i < c; ++i) assign(out[i], factor[i] * to_float(in[i]));
        }
    }
}

struct Mask {
    uint64_t seed;
    uint32_t purpose;
    float p;
    bool whole_channels;
    Shape shape;
    int64_t first;
    const Counters* counters;
    int threads;
    std::shared_ptr<float[]> factors;  // per thread: one image's factors, and 3 more for the last draw

    /// Computes out = in / (1 - p) for elements that the draw keeps, else 0; adds to `out` if
    /// `add`. Four elements share one Philox block. With whole_channels, four whole channels share
    /// one.
    template <class E> void apply(const E* in, E* out, bool add) const {
        const int64_t pixels = whole_channels ? int64_t(shape.h) * shape.w : 1;
        const int64_t draws = whole_channels ? shape.c : int64_t(shape.h) * shape.w * shape.c;
        const uint32_t step = uint32_t(counters->step);
        over_rows(threads, shape.n, [=, this](int thread, int64_t begin, int64_t end) {
            float* const mine = factors.get() + thread * (draws + 3);
            for (int64_t n = begin; n < end; ++n) {
                for (int64_t d = 0; d < draws; d += 4) {
                    const Random4 r = philox(seed, uint32_t(d / 4), uint32_t(first + n), step, purpose);
                    for (int k = 0; k < 4; ++k) mine[d + k] = uniform01(r.word[k]) >= p ? 1 / (1 - p) : 0.0f;
                }
                scale_rows(in + n * pixels * draws, pixels, draws, mine, out + n * pixels * draws, add);
            }
        });
    }
};

Mask mask_of(const Dropout& op, const OpArguments& b, int threads) {
    const Shape& shape = b.values[op.x].shape;
    const size_t draws = op.whole_channels ? size_t(shape.c) : size_t(shape.h) * shape.w * shape.c;
    return {b.seed,
            purpose_dropout + uint32_t(op.stream),
            op.p,
            op.whole_channels,
            shape,
            b.first,
            b.counters,
            threads,
            std::make_shared<float[]>(size_t(threads) * (draws + 3))};
}

}  // namespace

void CpuBackend::forward(const Dropout& op, const OpArguments& b, Tape& tape) {
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const E* x = b.values[op.x].as<E>();
        E* y = b.values[op.y].as<E>();
        if (!b.training) {
            tape.push_back({b.launch(LaunchPhase::forward, "dropout (identity)"), Resource::compute,
                            [x, y, n = b.values[op.x].count()] { std::copy_n(x, n, y); }});
            return;
        }
        tape.push_back({b.launch(LaunchPhase::forward, "dropout"), Resource::compute,
                        [mask = mask_of(op, b, threads_), x, y] { mask.apply(x, y, false); }});
    });
}

void CpuBackend::backward(const Dropout& op, const OpArguments& b, Tape& tape) {
    if (!b.value_gradients[op.x].data) return;
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const E* dy = b.value_gradients[op.y].as<E>();
        E* dx = b.value_gradients[op.x].as<E>();
        tape.push_back(
            {b.launch(LaunchPhase::gradient, "dropout gradient"), Resource::compute,
             [mask = mask_of(op, b, threads_), dy, dx, add = bool(b.accumulate[op.x])] { mask.apply(dy, dx, add); }});
    });
}

}  // namespace convoy::cpu
