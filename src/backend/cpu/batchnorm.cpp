// Batch norm with fused residual and ReLU, or GELU: two passes over memory forward, two backward.
// Sums are taken of differences from a pivot (the first row), so that a mean far from zero costs no
// digits. They are in float over short runs of rows, and in double beyond. With --sync-bn they are
// in double throughout and without a pivot, so that they hardly depend on how ranks share the rows.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gelu.h"
#include "backend/cpu/rows.h"

namespace convoy::cpu {
namespace {

/// The operands of a batch norm's passes; pointers are resolved once, when the tape is built. E is
/// the type of values and gradients.
template <class E> struct Work {
    int threads, c, residual_c;  // residual_c: 0 without residual
    int64_t rows;
    Activation act;
    const E *x, *residual;
    const float *scale, *bias;
    E* y;
    float *mean, *invstd;    // [c]: of this batch
    double *sums, *scratch;  // [2][c], then the row count; a ThreadScratch per thread
    float *pivot, *a, *b;    // [c]: row 0 of x; normalise(x) = a * x + b
    float *k1, *k2;          // [c]: constants of backward

    /// Returns the bytes of `sums` and everything after it.
    static size_t bytes(int c, int threads) {
        return sizeof(double) * (2 * size_t(c) + 1 + threads * ThreadScratch::doubles(c)) + sizeof(float) * 5 * c;
    }

    /// `block` has bytes() bytes.
    Work(const BatchNorm& op, const OpArguments& arguments, int threads_, void* block)
        : threads(threads_), act(op.act) {
        const Tensor& from = arguments.values[op.x];
        c = from.shape.c;
        residual_c = op.residual == none ? 0 : arguments.values[op.residual].shape.c;
        rows = int64_t(from.shape.pixels());
        x = from.as<E>();
        residual = op.residual == none ? nullptr : arguments.values[op.residual].as<E>();
        scale = arguments.params[op.scale].template as<float>();
        bias = arguments.params[op.bias].template as<float>();
        y = arguments.values[op.y].as<E>();
        mean = static_cast<float*>(arguments.own_saved());
        invstd = mean + c;
        sums = static_cast<double*>(block);
        scratch = sums + 2 * c + 1;
        pivot = reinterpret_cast<float*>(scratch + threads * ThreadScratch::doubles(c));
        a = pivot + c;
        b = a + c;
        k1 = b + c;
        k2 = k1 + c;
    }

    void normalise_by(const float* mean_, const float* invstd_) const {
        for (int i = 0; i < c; ++i) {
            a[i] = scale[i] * invstd_[i];
            b[i] = bias[i] - mean_[i] * a[i];
        }
    }
    void normalise_by_running(const float* running_mean, const float* running_var, float epsilon) const {
        for (int i = 0; i < c; ++i) {
            a[i] = scale[i] / std::sqrt(running_var[i] + epsilon);
            b[i] = bias[i] - running_mean[i] * a[i];
        }
    }
};

/// Adds moments over rows: s += d, q += d^2 with d = x - pivot. Sum is float, or double where the
/// sums must not depend on the split.
template <class E, class Sum>
CONVOY_WIDE void add_moments(const E* x, int64_t rows, int c, const float* __restrict pivot, Sum* __restrict s,
                             Sum* __restrict q) {
    for (int64_t r = 0; r < rows; ++r, x += c) {
#pragma omp simd
        for (int i = 0; i < c; ++i) {
            const Sum d = Sum(to_float(x[i])) - Sum(pivot[i]);
            s[i] += d;
            q[i] += d * d;
        }
    }
}

/// Computes the batch's mean in sums[0..c) and variance in sums[c..2c), as doubles. They are over
/// the rows of all ranks with --sync-bn, else of this rank. Returns the number of rows.
template <class E, class SumNow> int64_t moments(const Work<E>& w, bool in_double, SumNow sum_now) {
    const int c = w.c;
    for (int i = 0; i < c && w.rows > 0; ++i) w.pivot[i] = in_double ? 0.0f : to_float(w.x[i]);
    if (w.rows > 0)
        sum_rows(w.threads, w.rows, c, w.scratch, w.sums, [&](int64_t first, int64_t last, const ThreadScratch& t) {
            if (in_double)
                add_moments(w.x + first * c, last - first, c, w.pivot, t.totals, t.totals + c);
            else
                add_moments(w.x + first * c, last - first, c, w.pivot, t.s, t.q);
        });
    else
        std::fill_n(w.sums, 2 * c, 0.0);
    for (int i = 0; i < c && w.rows > 0; ++i) {  // from sums of differences from the pivot to sums about zero
        const double p = w.pivot[i], s = w.sums[i];
        w.sums[i] = s + double(w.rows) * p;
        w.sums[c + i] += 2 * p * s + double(w.rows) * p * p;
    }
    w.sums[2 * c] = double(w.rows);
    sum_now(w.sums, 2 * c + 1);
    const double n = w.sums[2 * c];
    for (int i = 0; i < c && n > 0; ++i) {
        w.sums[i] /= n;
        w.sums[c + i] = std::max(0.0, w.sums[c + i] / n - w.sums[i] * w.sums[i]);
    }
    return int64_t(n);
}

/// Computes y [rows, c] = activation(a * x + b + residual).
template <class E>
CONVOY_WIDE void apply_rows(Activation act, const E* x, const E* residual, E* y, int64_t rows, int c, int residual_c,
                            const float* __restrict a, const float* __restrict b, float* __restrict z) {
    for (int64_t r = 0; r < rows; ++r, x += c, y += c, residual += residual_c) {
        if (act == Activation::gelu) {
#pragma omp simd
            for (int i = 0; i < c; ++i) assign(y[i], gelu(a[i] * to_float(x[i]) + b[i]));
        } else if (residual_c == 0) {
            const float least = act == Activation::relu ? 0.0f : -INFINITY;
#pragma omp simd
            for (int i = 0; i < c; ++i) assign(y[i], std::max(a[i] * to_float(x[i]) + b[i], least));
        } else {
            const float least = act == Activation::relu ? 0.0f : -INFINITY;
#pragma omp simd
            for (int i = 0; i < c; ++i) z[i] = a[i] * to_float(x[i]) + b[i];
#pragma omp simd
            for (int i = 0; i < residual_c; ++i) z[i] += to_float(residual[i]);
#pragma omp simd
            for (int i = 0; i < c; ++i) assign(y[i], std::max(z[i], least));
        }
    }
}

template <class E> void apply(const Work<E>& w) {
    over_rows(w.threads, w.rows, [&](int thread, int64_t first, int64_t last) {
        const int c = w.c, rc = w.residual_c;
        apply_rows(w.act, w.x + first * c, w.residual + first * rc, w.y + first * c, last - first, c, rc, w.a, w.b,
                   ThreadScratch(w.scratch, thread, c).row);
    });
}

}  // namespace

void CpuBackend::forward(const BatchNorm& op, const OpArguments& b, Tape& tape) {
    const int c = b.values[op.x].shape.c;
    float *running_mean = b.params[op.mean].as<float>(), *running_var = b.params[op.var].as<float>();
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const Buffer small = allocate(Work<E>::bytes(c, threads_));
        const Work<E> w(op, b, threads_, small.get());
        if (!b.training || op.fixed) {
            tape.push_back({b.launch(LaunchPhase::forward, "batch norm"), Resource::compute,
                            [=, small = small, epsilon = op.epsilon] {
                                w.normalise_by_running(running_mean, running_var, epsilon);
                                apply(w);
                            }});
            return;
        }
        tape.push_back(
            {b.launch(LaunchPhase::forward, "batch norm forward"), Resource::compute,
             [=, this, small = small, sync = options_.sync_bn, epsilon = op.epsilon, momentum = op.momentum] {
                 const int64_t n = moments(w, sync, [&](double* values, int count) {
                     if (sync) sum_now(values, count);
                 });
                 if (n == 0) return;
                 const double unbiased = n > 1 ? double(n) / double(n - 1) : 1;
                 for (int i = 0; i < w.c; ++i) {
                     const double mean = w.sums[i], var = w.sums[w.c + i];
                     w.mean[i] = float(mean);
                     w.invstd[i] = float(1 / std::sqrt(var + double(epsilon)));
                     // not finite: the optimizer will skip this step
                     if (!std::isfinite(w.mean[i]) || !std::isfinite(w.invstd[i])) continue;
                     running_mean[i] += momentum * (float(mean) - running_mean[i]);
                     running_var[i] += momentum * (float(var * unbiased) - running_var[i]);
                 }
                 w.normalise_by(w.mean, w.invstd);
                 apply(w);
             }});
    });
}

namespace {

/// Computes g [c], the gradient at the normalisation's output: dy masked by the ReLU, or dy times
/// the GELU's derivative. `y` is given if there was a residual; otherwise the mask is recomputed
/// from x.
template <class E>
[[gnu::always_inline]] inline void masked(Activation act, const E* dy, const E* x, const E* y, int c,
                                          const float* __restrict a, const float* __restrict b, float* __restrict g) {
    if (act == Activation::gelu) {
#pragma omp simd
        for (int i = 0; i < c; ++i) g[i] = to_float(dy[i]) * gelu_derivative(a[i] * to_float(x[i]) + b[i]);
    } else if (act == Activation::identity) {
#pragma omp simd
        for (int i = 0; i < c; ++i) g[i] = to_float(dy[i]);
    } else if (!y) {
#pragma omp simd
        for (int i = 0; i < c; ++i) g[i] = a[i] * to_float(x[i]) + b[i] > 0 ? to_float(dy[i]) : 0.0f;
    } else {
#pragma omp simd
        for (int i = 0; i < c; ++i) g[i] = to_float(y[i]) > 0 ? to_float(dy[i]) : 0.0f;
    }
}

/// Overwrites `to` [c] with v, or adds v to it.
template <class E> [[gnu::always_inline]] inline void put(bool add, E* to, const float* __restrict v, int c) {
    if (add) {
#pragma omp simd
        for (int i = 0; i < c; ++i) assign(to[i], to_float(to[i]) + v[i]);
    } else {
#pragma omp simd
        for (int i = 0; i < c; ++i) assign(to[i], v[i]);
    }
}

/// Operands of backward alone; null: not needed.
template <class E> struct Gradients {
    const E *dy, *y;  // y: null without a residual
    E *dx, *dresidual;
    bool add_dx, add_dresidual;
};

/// Adds s += g, q += g * (x - mean), over rows [first, last). g has room for a row.
template <class E, class Sum>
CONVOY_WIDE void add_gradient_sums(const Work<E>& w, const Gradients<E>& from, int64_t first, int64_t last,
                                   float* __restrict g, Sum* __restrict s, Sum* __restrict q) {
    const int c = w.c;
    const float* __restrict mean = w.mean;
    for (int64_t r = first; r < last; ++r) {
        const E* x = w.x + r * c;
        masked(w.act, from.dy + r * c, x, from.y ? from.y + r * c : nullptr, c, w.a, w.b, g);
#pragma omp simd
        for (int i = 0; i < c; ++i) {
            s[i] += Sum(g[i]);
            q[i] += Sum(g[i]) * Sum(to_float(x[i]) - mean[i]);
        }
    }
}

/// Computes dx = a * (g - k1 - (x - mean) * k2), dresidual = g.
template <class E>
CONVOY_WIDE void apply_gradient(const Work<E>& w, const Gradients<E>& to, int64_t first, int64_t last,
                                float* __restrict g) {
    const int c = w.c, rc = w.residual_c;
    const float* __restrict a = w.a, * __restrict k1 = w.k1, * __restrict k2 = w.k2, * __restrict mean = w.mean;
    for (int64_t r = first; r < last; ++r) {
        const E* x = w.x + r * c;
        masked(w.act, to.dy + r * c, x, to.y ? to.y + r * c : nullptr, c, a, w.b, g);
        if (to.dresidual) put(to.add_dresidual, to.dresidual + r * rc, g, rc);
        if (!to.dx) continue;
#pragma omp simd
        for (int i = 0; i < c; ++i) g[i] = a[i] * (g[i] - k1[i] - (to_float(x[i]) - mean[i]) * k2[i]);
        put(to.add_dx, to.dx + r * c, g, c);
    }
}

template <class E> void apply_gradient(const Work<E>& w, const Gradients<E>& to) {
    over_rows(w.threads, w.rows, [&](int thread, int64_t first, int64_t last) {
        apply_gradient(w, to, first, last, ThreadScratch(w.scratch, thread, w.c).row);
    });
}

}  // namespace

void CpuBackend::backward(const BatchNorm& op, const OpArguments& b, Tape& tape) {
    const int c = b.values[op.x].shape.c;
    // null: frozen
    float *dscale = b.param_gradients[op.scale].as<float>(), *dbias = b.param_gradients[op.bias].as<float>();
    with_type(b.values[op.x].dtype, [&]<class E>(E) {
        const Buffer small = allocate(Work<E>::bytes(c, threads_));
        const Work<E> w(op, b, threads_, small.get());
        Gradients<E> g{.dy = b.value_gradients[op.y].as<E>(),
                       .y = op.residual == none ? nullptr : b.values[op.y].as<E>(),
                       .dx = b.value_gradients[op.x].as<E>(),
                       .dresidual = nullptr,
                       // if the residual is x, its gradient is written first
                       .add_dx = b.accumulate[op.x] || op.residual == op.x,
                       .add_dresidual = false};
        if (op.residual != none) {
            g.dresidual = b.value_gradients[op.residual].as<E>();
            g.add_dresidual = b.accumulate[op.residual];
        }
        if (op.fixed) {  // statistics that are constants: dx = a * g
            tape.push_back({b.launch(LaunchPhase::gradient, "batch norm gradient"), Resource::compute,
                            [=, small = small, epsilon = op.epsilon, mean = b.params[op.mean].as<float>(),
                             var = b.params[op.var].as<float>()] {
                                w.normalise_by_running(mean, var, epsilon);
                                std::fill_n(w.k1, 2 * w.c, 0.0f);  // and k2
                                std::fill_n(w.mean, w.c, 0.0f);
                                apply_gradient(w, g);
                            }});
            return;
        }
        tape.push_back({b.launch(LaunchPhase::gradient, "batch norm gradient"), Resource::compute,
                        [=, this, small = small, sync = options_.sync_bn] {
                            if (w.rows > 0) {
                                w.normalise_by(w.mean, w.invstd);
                                sum_rows(w.threads, w.rows, w.c, w.scratch, w.sums,
                                         [&](int64_t first, int64_t last, const ThreadScratch& t) {
                                             if (sync)
                                                 add_gradient_sums(w, g, first, last, t.row, t.totals, t.totals + w.c);
                                             else
                                                 add_gradient_sums(w, g, first, last, t.row, t.s, t.q);
                                         });
                            } else {
                                std::fill_n(w.sums, 2 * w.c, 0.0);
                            }
                            for (int i = 0; i < w.c; ++i) {  // of this rank; the gradients' all-reduce adds the rest
                                if (dbias) dbias[i] = float(w.sums[i]);
                                if (dscale) dscale[i] = w.rows > 0 ? float(w.sums[w.c + i] * w.invstd[i]) : 0.0f;
                            }
                            w.sums[2 * w.c] = double(w.rows);
                            if (sync) sum_now(w.sums, 2 * w.c + 1);
                            const double n = w.sums[2 * w.c];
                            if (w.rows == 0) return;
                            for (int i = 0; i < w.c; ++i) {
                                w.k1[i] = float(w.sums[i] / n);
                                w.k2[i] = float(w.sums[w.c + i] / n * w.invstd[i] * w.invstd[i]);
                            }
                            apply_gradient(w, g);
                        }});
    });
}

}  // namespace convoy::cpu
