// Batch norm with fused residual and ReLU, or GELU: two passes over memory forward, two backward. Sums are taken about a pivot (the
// first row) in float over short runs of rows and in double beyond, so a mean far from zero costs no digits.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gelu.h"
#include "backend/cpu/rows.h"

namespace convoy {
namespace {

/// Everything a batch norm's passes need; pointers are resolved once, when the tape is built.
struct Work {
    int threads, c, residual_c;  // residual_c: 0 without residual
    int64_t rows;
    bool relu, gelu;
    const float *x, *residual, *scale, *bias;
    float *y, *mean, *invstd;  // mean, invstd [c]: of this batch
    float *a, *b;              // [c]: normalise(x) = a * x + b
    double *sums, *scratch;    // [2][c] and one for the row count; a ThreadScratch a thread

    /// Bytes behind `sums`, `scratch`, `a`, `b` and two more vectors [c] that backward needs.
    static size_t bytes(int c, int threads) {
        return sizeof(double) * (2 * size_t(c) + 1 + threads * ThreadScratch::doubles(c)) + sizeof(float) * 4 * c;
    }
};

/// Batch mean and variance of all ranks' rows (or this rank's), as doubles in sums[0..c) and sums[c..2c); returns the rows.
template <class SumNow> int64_t moments(const Work& w, SumNow sum_now) {
    const int c = w.c;
    const float* pivot = w.x;  // row 0
    if (w.rows > 0)
        sum_rows(w.threads, w.rows, c, w.scratch, w.sums, [&](int64_t r, const ThreadScratch& t) {
            const float* x = w.x + r * c;
#pragma omp simd
            for (int i = 0; i < c; ++i) {
                const float d = x[i] - pivot[i];
                t.s[i] += d;
                t.q[i] += d * d;
            }
        });
    else
        std::fill_n(w.sums, 2 * c, 0.0);
    for (int i = 0; i < c && w.rows > 0; ++i) {  // from about the pivot to about zero
        const double p = pivot[i], s = w.sums[i];
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

void apply(const Work& w) {
    over_rows(w.threads, w.rows, [&](int, int64_t first, int64_t last) {
        const int c = w.c, rc = w.residual_c;
        for (int64_t r = first; r < last; ++r) {
            const float* x = w.x + r * c;
            float* y = w.y + r * c;
#pragma omp simd
            for (int i = 0; i < c; ++i) y[i] = w.a[i] * x[i] + w.b[i];
            if (rc > 0) {
                const float* residual = w.residual + r * rc;
#pragma omp simd
                for (int i = 0; i < rc; ++i) y[i] += residual[i];
            }
            if (w.relu) {
#pragma omp simd
                for (int i = 0; i < c; ++i) y[i] = std::max(y[i], 0.0f);
            } else if (w.gelu) {
#pragma omp simd
                for (int i = 0; i < c; ++i) y[i] = cpu::gelu(y[i]);
            }
        }
    });
}

void normalise_by(const Work& w, const float* mean, const float* invstd) {
    for (int i = 0; i < w.c; ++i) {
        w.a[i] = w.scale[i] * invstd[i];
        w.b[i] = w.bias[i] - mean[i] * w.a[i];
    }
}

/// `block` has Work::bytes.
Work make_work(const BatchNorm& op, const Bound& b, int threads, void* block) {
    const Tensor& x = b.values[op.x];
    const int c = x.shape.c;
    Work w{};
    w.threads = threads;
    w.c = c;
    w.residual_c = op.residual == none ? 0 : b.values[op.residual].shape.c;
    w.rows = int64_t(x.shape.pixels());
    w.relu = op.act == Activation::relu;
    w.gelu = op.act == Activation::gelu;
    w.x = x.as<float>();
    w.residual = op.residual == none ? nullptr : b.values[op.residual].as<float>();
    w.scale = b.params[op.scale].as<float>();
    w.bias = b.params[op.bias].as<float>();
    w.y = b.values[op.y].as<float>();
    w.mean = static_cast<float*>(b.saved);
    w.invstd = w.mean + c;
    w.sums = static_cast<double*>(block);
    w.scratch = w.sums + 2 * c + 1;
    w.a = reinterpret_cast<float*>(w.scratch + threads * ThreadScratch::doubles(c));
    w.b = w.a + c;
    return w;
}

}  // namespace

void CpuBackend::forward(const BatchNorm& op, const Bound& b, Tape& tape) {
    const int c = b.values[op.x].shape.c;
    const Buffer small = allocate(Work::bytes(c, threads_));
    const Work w = make_work(op, b, threads_, small.get());
    float *running_mean = b.params[op.mean].as<float>(), *running_var = b.params[op.var].as<float>();
    if (!b.training) {
        tape.push_back({"batch norm " + b.name, Lane::compute, [=, small = small, epsilon = op.epsilon] {
                            for (int i = 0; i < w.c; ++i) {
                                w.a[i] = w.scale[i] / std::sqrt(running_var[i] + epsilon);
                                w.b[i] = w.bias[i] - running_mean[i] * w.a[i];
                            }
                            apply(w);
                        }});
        return;
    }
    tape.push_back({"batch norm forward " + b.name, Lane::compute,
                    [=, this, small = small, sync = options_.sync_bn, epsilon = op.epsilon, momentum = op.momentum] {
                        const int64_t n = moments(w, [&](double* values, int count) {
                            if (sync) sum_now(values, count);
                        });
                        if (n == 0) return;
                        const double unbiased = n > 1 ? double(n) / double(n - 1) : 1;
                        for (int i = 0; i < w.c; ++i) {
                            const double mean = w.sums[i], var = w.sums[w.c + i];
                            w.mean[i] = float(mean);
                            w.invstd[i] = float(1 / std::sqrt(var + double(epsilon)));
                            if (!std::isfinite(w.mean[i]) || !std::isfinite(w.invstd[i])) continue;  // the update will be left out
                            running_mean[i] += momentum * (float(mean) - running_mean[i]);
                            running_var[i] += momentum * (float(var * unbiased) - running_var[i]);
                        }
                        normalise_by(w, w.mean, w.invstd);
                        apply(w);
                    }});
}

namespace {

/// Backward's view: the gradient that reaches the normalisation is dy, masked by the ReLU or times the GELU's derivative.
struct Gradient {
    Work w;
    const float *dy, *y;
    float *dx, *dresidual, *dscale, *dbias;  // dscale: null if the scale is frozen
    bool add_dx, add_dresidual;

    /// g [c] = masked dy of row r. Without a residual the mask is recomputed from x.
    void masked(int64_t r, float* g) const {
        const int c = w.c;
        const float *d = dy + r * c, *x = w.x + r * c;
        if (w.gelu) {
#pragma omp simd
            for (int i = 0; i < c; ++i) g[i] = d[i] * cpu::gelu_derivative(w.a[i] * x[i] + w.b[i]);
        } else if (!w.relu) {
            std::copy_n(d, c, g);
        } else if (w.residual_c == 0) {
#pragma omp simd
            for (int i = 0; i < c; ++i) g[i] = w.a[i] * x[i] + w.b[i] > 0 ? d[i] : 0.0f;
        } else {
            const float* out = y + r * c;
#pragma omp simd
            for (int i = 0; i < c; ++i) g[i] = out[i] > 0 ? d[i] : 0.0f;
        }
    }

    void sums() const {
        const int c = w.c;
        sum_rows(w.threads, w.rows, c, w.scratch, w.sums, [&](int64_t r, const ThreadScratch& t) {
            float* g = t.row;
            masked(r, g);
            const float* x = w.x + r * c;
#pragma omp simd
            for (int i = 0; i < c; ++i) {
                t.s[i] += g[i];
                t.q[i] += g[i] * (x[i] - w.mean[i]);
            }
        });
    }

    /// dx = a * (g - k1 - (x - mean) * k2), with k1 and k2 [c].
    void apply(const float* k1, const float* k2) const {
        over_rows(w.threads, w.rows, [&](int thread, int64_t first, int64_t last) {
            const int c = w.c, rc = w.residual_c;
            float* g = ThreadScratch(w.scratch, thread, c).row;
            for (int64_t r = first; r < last; ++r) {
                masked(r, g);
                const float* x = w.x + r * c;
                if (dresidual) {
                    float* to = dresidual + r * rc;
                    if (add_dresidual) {
#pragma omp simd
                        for (int i = 0; i < rc; ++i) to[i] += g[i];
                    } else {
                        std::copy_n(g, rc, to);
                    }
                }
                if (!dx) continue;
                float* to = dx + r * c;
                if (add_dx) {
#pragma omp simd
                    for (int i = 0; i < c; ++i) to[i] += w.a[i] * (g[i] - k1[i] - (x[i] - w.mean[i]) * k2[i]);
                } else {
#pragma omp simd
                    for (int i = 0; i < c; ++i) to[i] = w.a[i] * (g[i] - k1[i] - (x[i] - w.mean[i]) * k2[i]);
                }
            }
        });
    }
};

}  // namespace

void CpuBackend::backward(const BatchNorm& op, const Bound& b, Tape& tape) {
    const int c = b.values[op.x].shape.c;
    const Buffer small = allocate(Work::bytes(c, threads_));
    Gradient g{};
    g.w = make_work(op, b, threads_, small.get());
    g.dy = b.value_gradients[op.y].as<float>();
    g.y = b.values[op.y].as<float>();
    g.dx = b.value_gradients[op.x].as<float>();
    g.add_dx = b.accumulate[op.x] || op.residual == op.x;  // a row's residual gradient is written first
    if (op.residual != none) {
        g.dresidual = b.value_gradients[op.residual].as<float>();
        g.add_dresidual = b.accumulate[op.residual];
    }
    g.dscale = b.param_gradients[op.scale].as<float>();
    g.dbias = b.param_gradients[op.bias].as<float>();
    float *k1 = g.w.b + c, *k2 = k1 + c;
    tape.push_back({"batch norm gradient " + b.name, Lane::compute, [=, this, small = small, sync = options_.sync_bn] {
                        const Work& w = g.w;
                        if (w.rows > 0) {
                            normalise_by(w, w.mean, w.invstd);
                            g.sums();
                        } else {
                            std::fill_n(w.sums, 2 * w.c, 0.0);
                        }
                        for (int i = 0; i < w.c; ++i) {  // of this rank: the gradient all-reduce adds the others
                            g.dbias[i] = float(w.sums[i]);
                            if (g.dscale) g.dscale[i] = w.rows > 0 ? float(w.sums[w.c + i] * w.invstd[i]) : 0.0f;
                        }
                        w.sums[2 * w.c] = double(w.rows);
                        if (sync) sum_now(w.sums, 2 * w.c + 1);
                        const double n = w.sums[2 * w.c];
                        if (w.rows == 0) return;
                        for (int i = 0; i < w.c; ++i) {
                            k1[i] = float(w.sums[i] / n);
                            k2[i] = float(w.sums[w.c + i] / n * w.invstd[i] * w.invstd[i]);
                        }
                        g.apply(k1, k2);
                    }});
}

}  // namespace convoy
