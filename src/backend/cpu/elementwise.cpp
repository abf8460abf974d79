// ReLU, GELU and add where they were not fused, scaling, and copies of gradients.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gelu.h"
#include "backend/cpu/rows.h"

namespace convoy::cpu {
namespace {

inline float activate(const Relu&, float x) { return std::max(x, 0.0f); }
inline float activate(const Gelu&, float x) { return gelu(x); }
/// Computes dx from dy and the value kept by the op: its output or its input.
inline float gradient(const Relu&, float y, float dy) { return y > 0 ? dy : 0.0f; }
inline float gradient(const Gelu&, float x, float dy) { return dy * gelu_derivative(x); }
ValueId kept_by(const Relu& op) { return op.y; }
ValueId kept_by(const Gelu& op) { return op.x; }

// Loops over [0, n). Each is a separate function, so that it is compiled for AVX-512 too.
// Gradients are overwritten; `add`: they are added to.

template <class Op, class E> CONVOY_WIDE void forward_elements(const Op& op, const E* x, E* y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) assign(y[i], activate(op, to_float(x[i])));
}
template <class Op, class E>
CONVOY_WIDE void backward_elements(const Op& op, const E* kept, const E* dy, E* dx, int64_t n, bool add) {
    if (!add) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) assign(dx[i], gradient(op, to_float(kept[i]), to_float(dy[i])));
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i)
            assign(dx[i], to_float(dx[i]) + gradient(op, to_float(kept[i]), to_float(dy[i])));
    }
}
template <class E> CONVOY_WIDE void scaled(const E* x, float factor, E* y, int64_t n, bool add) {
    if (!add) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) assign(y[i], factor * to_float(x[i]));
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) assign(y[i], to_float(y[i]) + factor * to_float(x[i]));
    }
}
template <class E> CONVOY_WIDE void sum(const E* x, const E* z, E* y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) assign(y[i], to_float(x[i]) + to_float(z[i]));
}

template <class O>
void forward_activation(int threads, const char* name, const O& op, const OpArguments& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y];
    with_type(x.dtype, [&]<class E>(E) {
        tape.push_back({b.launch(LaunchPhase::forward, name), Resource::compute,
                        [=, from = x.as<E>(), to = y.as<E>(), n = int64_t(x.count())] {
                            over_rows(threads, n, [=](int, int64_t i, int64_t end) {
                                forward_elements(op, from + i, to + i, end - i);
                            });
                        }});
    });
}

template <class O>
void backward_activation(int threads, const char* name, const O& op, const OpArguments& b, Tape& tape) {
    const Tensor &kept = b.values[kept_by(op)], &dy = b.value_gradients[op.y], &dx = b.value_gradients[op.x];
    const bool add = b.accumulate[op.x];
    if (!dx.data) return;
    with_type(dx.dtype, [&]<class E>(E) {
        tape.push_back({b.launch(LaunchPhase::gradient, name), Resource::compute,
                        [=, at = kept.as<E>(), from = dy.as<E>(), to = dx.as<E>(), n = int64_t(dx.count())] {
                            over_rows(threads, n, [=](int, int64_t i, int64_t end) {
                                backward_elements(op, at + i, from + i, to + i, end - i, add);
                            });
                        }});
    });
}

}  // namespace

void CpuBackend::forward(const Relu& op, const OpArguments& b, Tape& tape) {
    forward_activation(threads_, "relu", op, b, tape);
}
void CpuBackend::backward(const Relu& op, const OpArguments& b, Tape& tape) {
    backward_activation(threads_, "relu gradient", op, b, tape);
}
void CpuBackend::forward(const Gelu& op, const OpArguments& b, Tape& tape) {
    forward_activation(threads_, "gelu", op, b, tape);
}
void CpuBackend::backward(const Gelu& op, const OpArguments& b, Tape& tape) {
    backward_activation(threads_, "gelu gradient", op, b, tape);
}

void CpuBackend::forward(const Scale& op, const OpArguments& b, Tape& tape) {
    scale(b.launch(LaunchPhase::forward, "scale"), b.values[op.x], op.factor, b.values[op.y], false, tape);
}

void CpuBackend::backward(const Scale& op, const OpArguments& b, Tape& tape) {
    if (b.value_gradients[op.x].data)
        scale(b.launch(LaunchPhase::gradient, "scale gradient"), b.value_gradients[op.y], op.factor,
              b.value_gradients[op.x], b.accumulate[op.x], tape);
}

void CpuBackend::add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape& tape) {
    scale(named_launch(LaunchPhase::other, "scale"), from, factor, to, accumulate, tape);
}

void CpuBackend::scale(LaunchId id, const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape& tape) {
    require(from.count() == to.count() && from.dtype == to.dtype,
            "a scaled tensor has the size and type of its destination");
    with_type(from.dtype, [&]<class E>(E) {
        tape.push_back({id, Resource::compute, [=, this, x = from.as<E>(), y = to.as<E>(), n = int64_t(to.count())] {
                            over_rows(threads_, n, [=](int, int64_t i, int64_t end) {
                                scaled(x + i, factor, y + i, end - i, accumulate);
                            });
                        }});
    });
}

void CpuBackend::forward(const Add& op, const OpArguments& b, Tape& tape) {
    with_type(b.values[op.y].dtype, [&]<class E>(E) {
        const E *x = b.values[op.a].as<E>(), *z = b.values[op.b].as<E>();
        tape.push_back({b.launch(LaunchPhase::forward, "add"), Resource::compute,
                        [=, this, y = b.values[op.y].as<E>(), n = int64_t(b.values[op.y].count())] {
                            over_rows(threads_, n,
                                      [=](int, int64_t i, int64_t end) { sum(x + i, z + i, y + i, end - i); });
                        }});
    });
}

void CpuBackend::backward(const Add& op, const OpArguments& b, Tape& tape) {
    for (const bool second : {false, true}) {
        const ValueId id = second ? op.b : op.a;
        if (b.value_gradients[id].data)
            scale(b.launch(LaunchPhase::gradient, "add gradient"), b.value_gradients[op.y], 1, b.value_gradients[id],
                  b.accumulate[id] || (second && op.a == op.b), tape);
    }
}

}  // namespace convoy::cpu
