// PyramidNet's shortcut: the image, or its 2x2 average, with zero channels appended.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/rows.h"

namespace convoy::cpu {

void CpuBackend::forward(const PadShortcut& op, const OpArguments& b, Tape& tape) {
    const Shape in = b.values[op.x].shape, out = b.values[op.y].shape;
    const int stride = op.stride;
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const E* x = b.values[op.x].as<E>();
        E* y = b.values[op.y].as<E>();
        tape.push_back({b.launch(LaunchPhase::forward, "shortcut"), Resource::compute, [=] {
                            const int64_t rows = int64_t(out.n) * out.h;
#pragma omp parallel for schedule(static)
                            for (int64_t row = 0; row < rows; ++row)
                                for (int j = 0; j < out.w; ++j) {
                                    const E* from = x + ((row * stride) * in.w + j * stride) * in.c;
                                    const E* below = from + int64_t(in.w) * in.c;
                                    E* to = y + (row * out.w + j) * out.c;
                                    if (stride == 1) {
                                        std::copy_n(from, in.c, to);
                                    } else {
#pragma omp simd
                                        for (int c = 0; c < in.c; ++c)
                                            assign(to[c], 0.25f * (to_float(from[c]) + to_float(from[in.c + c]) +
                                                                   to_float(below[c]) + to_float(below[in.c + c])));
                                    }
                                    std::fill(to + in.c, to + out.c, E{});
                                }
                        }});
    });
}

void CpuBackend::backward(const PadShortcut& op, const OpArguments& b, Tape& tape) {
    const Shape in = b.values[op.x].shape, out = b.values[op.y].shape;
    if (!b.value_gradients[op.x].data) return;
    const int stride = op.stride;
    const bool add = b.accumulate[op.x];
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const E* dy = b.value_gradients[op.y].as<E>();
        E* dx = b.value_gradients[op.x].as<E>();
        tape.push_back({b.launch(LaunchPhase::gradient, "shortcut gradient"), Resource::compute, [=] {
                            const float share = stride == 1 ? 1.0f : 0.25f;
                            // in.h is even if the stride is 2, so rows never straddle images
                            const int64_t rows = int64_t(in.n) * in.h;
#pragma omp parallel for schedule(static)
                            for (int64_t row = 0; row < rows; ++row)
                                for (int j = 0; j < in.w; ++j) {
                                    const E* from = dy + ((row / stride) * out.w + j / stride) * out.c;
                                    E* to = dx + (row * in.w + j) * in.c;
#pragma omp simd
                                    for (int c = 0; c < in.c; ++c)
                                        assign(to[c], (add ? to_float(to[c]) : 0.0f) + share * to_float(from[c]));
                                }
                        }});
    });
}

}  // namespace convoy::cpu
