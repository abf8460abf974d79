// ReLU, GELU and add where fusion left them on their own, scaling, and copies of gradients.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gelu.h"

namespace convoy {
namespace {

/// Runs f(i) for all i in [0, n) on all threads, vectorised.
template <class F> void each(int64_t n, F f) {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) f(i);
}

}  // namespace

void CpuBackend::forward(const Relu& op, const Bound& b, Tape& tape) {
    const float* x = b.values[op.x].as<float>();
    float* y = b.values[op.y].as<float>();
    const int64_t n = int64_t(b.values[op.x].count());
    tape.push_back({"relu " + b.name, Lane::compute, [=] { each(n, [=](int64_t i) { y[i] = std::max(x[i], 0.0f); }); }});
}

void CpuBackend::backward(const Relu& op, const Bound& b, Tape& tape) {
    const float *y = b.values[op.y].as<float>(), *dy = b.value_gradients[op.y].as<float>();
    float* dx = b.value_gradients[op.x].as<float>();
    if (!dx) return;
    const int64_t n = int64_t(b.values[op.x].count());
    const bool add = b.accumulate[op.x];
    tape.push_back({"relu gradient " + b.name, Lane::compute, [=] {
                        each(n, [=](int64_t i) { dx[i] = (add ? dx[i] : 0.0f) + (y[i] > 0 ? dy[i] : 0.0f); });
                    }});
}

void CpuBackend::forward(const Gelu& op, const Bound& b, Tape& tape) {
    const float* x = b.values[op.x].as<float>();
    float* y = b.values[op.y].as<float>();
    const int64_t n = int64_t(b.values[op.x].count());
    tape.push_back({"gelu " + b.name, Lane::compute, [=] { each(n, [=](int64_t i) { y[i] = cpu::gelu(x[i]); }); }});
}

void CpuBackend::backward(const Gelu& op, const Bound& b, Tape& tape) {
    const float *x = b.values[op.x].as<float>(), *dy = b.value_gradients[op.y].as<float>();
    float* dx = b.value_gradients[op.x].as<float>();
    if (!dx) return;
    const int64_t n = int64_t(b.values[op.x].count());
    const bool add = b.accumulate[op.x];
    tape.push_back({"gelu gradient " + b.name, Lane::compute, [=] {
                        each(n, [=](int64_t i) { dx[i] = (add ? dx[i] : 0.0f) + dy[i] * cpu::gelu_derivative(x[i]); });
                    }});
}

void CpuBackend::forward(const Scale& op, const Bound& b, Tape& tape) { add_scaled(b.values[op.x], op.factor, b.values[op.y], false, tape); }

void CpuBackend::backward(const Scale& op, const Bound& b, Tape& tape) {
    if (b.value_gradients[op.x].data) add_scaled(b.value_gradients[op.y], op.factor, b.value_gradients[op.x], b.accumulate[op.x], tape);
}

void CpuBackend::add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape& tape) {
    require(from.count() == to.count(), "what is scaled has the shape of where it goes");
    const float* x = from.as<float>();
    float* y = to.as<float>();
    tape.push_back({"scale", Lane::compute, [=, n = int64_t(to.count())] {
                        each(n, [=](int64_t i) { y[i] = (accumulate ? y[i] : 0.0f) + factor * x[i]; });
                    }});
}

void CpuBackend::forward(const Add& op, const Bound& b, Tape& tape) {
    const float *x = b.values[op.a].as<float>(), *z = b.values[op.b].as<float>();
    float* y = b.values[op.y].as<float>();
    const int64_t n = int64_t(b.values[op.y].count());
    tape.push_back({"add " + b.name, Lane::compute, [=] { each(n, [=](int64_t i) { y[i] = x[i] + z[i]; }); }});
}

void CpuBackend::backward(const Add& op, const Bound& b, Tape& tape) {
    const float* dy = b.value_gradients[op.y].as<float>();
    const int64_t n = int64_t(b.values[op.y].count());
    for (const bool second : {false, true}) {
        const ValueId id = second ? op.b : op.a;
        float* dx = b.value_gradients[id].as<float>();
        if (!dx) continue;
        const bool add = b.accumulate[id] || (second && op.a == op.b);
        tape.push_back({"add gradient " + b.name, Lane::compute, [=] { each(n, [=](int64_t i) { dx[i] = (add ? dx[i] : 0.0f) + dy[i]; }); }});
    }
}

}  // namespace convoy
