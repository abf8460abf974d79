#include "backend/cpu/muon.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <unordered_map>
#include <vector>

namespace convoy::cpu {
namespace {

/// Returns the sum of squares, in double and in a fixed order.
double squares(const float* v, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += double(v[i]) * double(v[i]);
    return sum;
}

/// The iterations on one matrix: x = a x + (b A + c A A) x with A = x x^T. If x has more rows than
/// columns, A = x^T x stands on the right.
class NewtonSchulz {
public:
    NewtonSchulz(const dnnl::engine& engine, const dnnl::stream& stream, int rows, int columns)
        : stream_(stream),
          count_(int64_t(rows) * columns),
          side_(std::min(rows, columns)),
          x_(size_t(count_)),
          product_(size_t(count_)),
          a_(size_t(side_) * size_t(side_)),
          square_(a_.size()) {
        const bool wide = rows <= columns;
        const Desc x = matrix(rows, columns, DType::f32), a = matrix(side_, side_, DType::f32);
        const Desc across = matrix(columns, rows, DType::f32, true);
        add(engine, wide ? x : across, x_, wide ? across : x, x_, a, a_);
        add(engine, a, a_, a, a_, a, square_);
        if (wide)
            add(engine, a, a_, x, x_, x, product_);
        else
            add(engine, x, x_, a, a_, x, product_);
    }
    float* x() { return x_.data(); }
    void iterate() {
        run(0);
        run(1);
        for (size_t i = 0; i < a_.size(); ++i) a_[i] = muon_b * a_[i] + muon_c * square_[i];
        run(2);
        for (int64_t i = 0; i < count_; ++i) x_[i] = muon_a * x_[i] + product_[i];
    }

private:
    struct Gemm {
        dnnl::matmul run;
        std::unordered_map<int, dnnl::memory> operands;
    };
    void add(const dnnl::engine& engine, const Desc& a, std::vector<float>& from_a, const Desc& b,
             std::vector<float>& from_b, const Desc& to, std::vector<float>& into) {
        gemms_.push_back({dnnl::matmul({engine, a, b, to}),
                          {{DNNL_ARG_SRC, dnnl::memory(a, engine, from_a.data())},
                           {DNNL_ARG_WEIGHTS, dnnl::memory(b, engine, from_b.data())},
                           {DNNL_ARG_DST, dnnl::memory(to, engine, into.data())}}});
    }
    void run(size_t i) {
        gemms_[i].run.execute(stream_, gemms_[i].operands);
        stream_.wait();
    }

    dnnl::stream stream_;
    int64_t count_;
    int side_;
    std::vector<float> x_, product_, a_, square_;
    std::vector<Gemm> gemms_;
};

}  // namespace

std::function<void(float)> muon_step(const dnnl::engine& engine, const dnnl::stream& stream, const Update& u,
                                     const UpdateSegment& s) {
    const auto ortho = std::make_shared<NewtonSchulz>(engine, stream, s.rows, s.columns);
    const int64_t n = int64_t(s.rows) * s.columns;
    float *w = u.weights + s.begin, *velocity = u.state + s.begin;
    return [=, rows = s.rows, g = u.gradients + s.begin, momentum = u.spec.muon_momentum,
            factor = s.learning_rate](float rate) {
        float* x = ortho->x();
#pragma omp parallel for simd schedule(static)
        for (int64_t i = 0; i < n; ++i) x[i] = muon_direction(momentum, g[i], velocity[i]);
        const float unit = float(1 / (std::sqrt(squares(x, n)) + 1e-7));
#pragma omp parallel for simd schedule(static)
        for (int64_t i = 0; i < n; ++i) x[i] *= unit;
        for (int k = 0; k < muon_iterations; ++k) ortho->iterate();
        const float rescaled = float(std::sqrt(double(rows) / squares(w, n)));
        const float lr = rate * factor;
#pragma omp parallel for simd schedule(static)
        for (int64_t i = 0; i < n; ++i) w[i] = rescaled * w[i] - lr * x[i];
    };
}

}  // namespace convoy::cpu
