// Dropout. The mask is a function of (seed, step, position in the global batch, element), so backward draws it again
// instead of storing it, and it does not depend on the number of ranks.
#include "backend/cpu/cpu_backend.h"

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

    /// out[e] = kept ? in[e] / (1 - p) : 0 for every element of every sample; added to out if `add`.
    void apply(const float* in, float* out, bool add) const {
        const int64_t elements = int64_t(shape.h) * shape.w * shape.c;
        const float scale = 1 / (1 - p);
        const uint32_t step = uint32_t(counters->step);
#pragma omp parallel for schedule(static)
        for (int n = 0; n < shape.n; ++n)
            for (int64_t e = 0; e < elements; ++e) {
                const uint32_t draw = uint32_t(whole_channels ? e % shape.c : e);
                const uint32_t word = philox(seed, draw / 4, uint32_t(first + n), step, purpose).word[draw % 4];
                const float kept = uniform01(word) >= p ? in[n * elements + e] * scale : 0.0f;
                float& to = out[n * elements + e];
                to = add ? to + kept : kept;
            }
    }
};

Mask mask_of(const Dropout& op, const Bound& b) {
    return {b.seed, purpose_dropout + uint32_t(op.stream), op.p, op.whole_channels, b.values[op.x].shape, b.first, b.counters};
}

}  // namespace

void CpuBackend::forward(const Dropout& op, const Bound& b, Tape& tape) {
    const float* x = b.values[op.x].as<float>();
    float* y = b.values[op.y].as<float>();
    if (!b.training) {
        tape.push_back({"dropout (identity) " + b.name, Lane::compute, [x, y, n = b.values[op.x].count()] { std::copy_n(x, n, y); }});
        return;
    }
    tape.push_back({"dropout " + b.name, Lane::compute, [mask = mask_of(op, b), x, y] { mask.apply(x, y, false); }});
}

void CpuBackend::backward(const Dropout& op, const Bound& b, Tape& tape) {
    const float* dy = b.value_gradients[op.y].as<float>();
    float* dx = b.value_gradients[op.x].as<float>();
    if (!dx) return;
    tape.push_back({"dropout gradient " + b.name, Lane::compute,
                    [mask = mask_of(op, b), dy, dx, add = bool(b.accumulate[op.x])] { mask.apply(dy, dx, add); }});
}

}  // namespace convoy
