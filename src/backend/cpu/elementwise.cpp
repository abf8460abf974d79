// ReLU, GELU and add where fusion left them on their own, scaling, and copies of gradients.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gelu.h"
#include "backend/cpu/rows.h"

namespace convoy {
namespace {

// Loops over [0, n), one by one so that each is compiled for AVX-512 too. Gradients are written, or added where `add`.

template <class E> CONVOY_WIDE void relu_forward(const E* x, E* y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) assign(y[i], std::max(to_float(x[i]), 0.0f));
}
template <class E> CONVOY_WIDE void relu_backward(const E* y, const E* dy, E* dx, int64_t n, bool add) {
    if (!add) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) assign(dx[i], to_float(y[i]) > 0 ? to_float(dy[i]) : 0.0f);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) assign(dx[i], to_float(dx[i]) + (to_float(y[i]) > 0 ? to_float(dy[i]) : 0.0f));
    }
}
template <class E> CONVOY_WIDE void gelu_forward(const E* x, E* y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) assign(y[i], cpu::gelu(to_float(x[i])));
}
template <class E> CONVOY_WIDE void gelu_backward(const E* x, const E* dy, E* dx, int64_t n, bool add) {
    if (!add) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) assign(dx[i], to_float(dy[i]) * cpu::gelu_derivative(to_float(x[i])));
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) assign(dx[i], to_float(dx[i]) + to_float(dy[i]) * cpu::gelu_derivative(to_float(x[i])));
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

}  // namespace

void CpuBackend::forward(const Relu& op, const Bound& b, Tape& tape) {
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        tape.push_back({"relu " + b.name, Lane::compute,
                        [=, this, x = b.values[op.x].as<E>(), y = b.values[op.y].as<E>(), n = int64_t(b.values[op.x].count())] {
                            over_rows(threads_, n, [=](int, int64_t i, int64_t end) { relu_forward(x + i, y + i, end - i); });
                        }});
    });
}

void CpuBackend::backward(const Relu& op, const Bound& b, Tape& tape) {
    if (!b.value_gradients[op.x].data) return;
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const E *y = b.values[op.y].as<E>(), *dy = b.value_gradients[op.y].as<E>();
        tape.push_back(
            {"relu gradient " + b.name, Lane::compute,
             [=, this, dx = b.value_gradients[op.x].as<E>(), n = int64_t(b.values[op.x].count()), add = bool(b.accumulate[op.x])] {
                 over_rows(threads_, n, [=](int, int64_t i, int64_t end) { relu_backward(y + i, dy + i, dx + i, end - i, add); });
             }});
    });
}

void CpuBackend::forward(const Gelu& op, const Bound& b, Tape& tape) {
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        tape.push_back({"gelu " + b.name, Lane::compute,
                        [=, this, x = b.values[op.x].as<E>(), y = b.values[op.y].as<E>(), n = int64_t(b.values[op.x].count())] {
                            over_rows(threads_, n, [=](int, int64_t i, int64_t end) { gelu_forward(x + i, y + i, end - i); });
                        }});
    });
}

void CpuBackend::backward(const Gelu& op, const Bound& b, Tape& tape) {
    if (!b.value_gradients[op.x].data) return;
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const E *x = b.values[op.x].as<E>(), *dy = b.value_gradients[op.y].as<E>();
        tape.push_back(
            {"gelu gradient " + b.name, Lane::compute,
             [=, this, dx = b.value_gradients[op.x].as<E>(), n = int64_t(b.values[op.x].count()), add = bool(b.accumulate[op.x])] {
                 over_rows(threads_, n, [=](int, int64_t i, int64_t end) { gelu_backward(x + i, dy + i, dx + i, end - i, add); });
             }});
    });
}

void CpuBackend::forward(const Scale& op, const Bound& b, Tape& tape) {
    add_scaled(b.values[op.x], op.factor, b.values[op.y], false, tape);
}

void CpuBackend::backward(const Scale& op, const Bound& b, Tape& tape) {
    if (b.value_gradients[op.x].data) add_scaled(b.value_gradients[op.y], op.factor, b.value_gradients[op.x], b.accumulate[op.x], tape);
}

void CpuBackend::add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape& tape) {
    require(from.count() == to.count() && from.dtype == to.dtype, "what is scaled has the shape and type of where it goes");
    with_type(from.dtype, [&]<class E>(E) {
        tape.push_back({"scale", Lane::compute, [=, this, x = from.as<E>(), y = to.as<E>(), n = int64_t(to.count())] {
                            over_rows(threads_, n, [=](int, int64_t i, int64_t end) { scaled(x + i, factor, y + i, end - i, accumulate); });
                        }});
    });
}

void CpuBackend::forward(const Add& op, const Bound& b, Tape& tape) {
    with_type(b.values[op.y].dtype, [&]<class E>(E) {
        const E *x = b.values[op.a].as<E>(), *z = b.values[op.b].as<E>();
        tape.push_back({"add " + b.name, Lane::compute, [=, this, y = b.values[op.y].as<E>(), n = int64_t(b.values[op.y].count())] {
                            over_rows(threads_, n, [=](int, int64_t i, int64_t end) { sum(x + i, z + i, y + i, end - i); });
                        }});
    });
}

void CpuBackend::backward(const Add& op, const Bound& b, Tape& tape) {
    for (const bool second : {false, true}) {
        const ValueId id = second ? op.b : op.a;
        if (b.value_gradients[id].data)
            add_scaled(b.value_gradients[op.y], 1, b.value_gradients[id], b.accumulate[id] || (second && op.a == op.b), tape);
    }
}

}  // namespace convoy
