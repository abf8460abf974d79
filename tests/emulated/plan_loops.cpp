// Computes plans with loops.
#include "tests/emulated/plan_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/bf16.h"

#include <cuda_fp16.h>

namespace convoy::test {
using namespace cuda;
namespace {

float rounded(DType type, float v) {
    if (type == DType::f16) return __half2float(__float2half_rn(v));
    if (type != DType::bf16) return v;
    bf16 low;
    assign(low, v);
    return to_float(low);
}

using Floats = std::vector<float>;

Floats load(const void* from, size_t count, DType type) {
    Floats v(count);
    if (type == DType::f32) std::memcpy(v.data(), from, count * sizeof(float));
    if (type == DType::f16)
        for (size_t i = 0; i < count; ++i) v[i] = __half2float(static_cast<const __half*>(from)[i]);
    if (type == DType::bf16)
        for (size_t i = 0; i < count; ++i) v[i] = to_float(static_cast<const bf16*>(from)[i]);
    return v;
}
void store(const Floats& v, void* to, DType type) {
    if (type == DType::f32) std::memcpy(to, v.data(), v.size() * sizeof(float));
    if (type == DType::f16)
        for (size_t i = 0; i < v.size(); ++i) static_cast<__half*>(to)[i] = __float2half_rn(v[i]);
    if (type == DType::bf16)
        for (size_t i = 0; i < v.size(); ++i) assign(static_cast<bf16*>(to)[i], v[i]);
}

class Run {
public:
    Run(const PlanSpec& spec, const std::map<Slot, void*>& operands) : s_(spec), operands_(operands) {}

    void all() const {
        switch (s_.kind) {
            case PlanSpec::conv: return conv();
            case PlanSpec::conv_data_gradient: return data_gradient();
            case PlanSpec::conv_weight_gradient: return weight_gradient();
            case PlanSpec::norm: return norm();
            case PlanSpec::norm_gradient: return norm_gradient();
        }
    }

private:
    Floats tensor(Slot slot) const {
        return load(operands_.at(slot), operand_bytes(s_, slot) / size_of(s_.type), s_.type);
    }
    Floats vector(Slot slot) const {
        return load(operands_.at(slot), operand_bytes(s_, slot) / sizeof(float), DType::f32);
    }
    void put(Slot slot, const Floats& v) const { store(v, operands_.at(slot), s_.type); }
    void put_vector(Slot slot, const Floats& v) const { store(v, operands_.at(slot), DType::f32); }
    size_t channels() const { return size_t(s_.x.c); }

    /// Calls f(x's first element, y's first element, weight's first element of [in][out]) for every
    /// pixel pair that a convolution joins, by image.
    template <class F> void joined(F f) const {
        const size_t in = size_t(s_.x.c), out = size_t(s_.y.c);
#pragma omp parallel for
        for (int n = 0; n < s_.x.n; ++n)
            for (int i = 0; i < s_.y.h; ++i)
                for (int j = 0; j < s_.y.w; ++j)
                    for (int k = 0; k < s_.kernel * s_.kernel; ++k) {
                        const int h = i * s_.stride - s_.pad + k / s_.kernel,
                                  w = j * s_.stride - s_.pad + k % s_.kernel;
                        if (h < 0 || h >= s_.x.h || w < 0 || w >= s_.x.w) continue;
                        f(n, ((size_t(n) * s_.x.h + h) * s_.x.w + w) * in,
                          ((size_t(n) * s_.y.h + i) * s_.y.w + j) * out, size_t(k) * in * out);
                    }
    }
    /// Returns weight [out][k][k][in] as [k][k][in][out], and back.
    Floats turned(const Floats& w) const {
        const size_t in = size_t(s_.x.c), out = size_t(s_.y.c), taps = size_t(s_.kernel) * s_.kernel;
        Floats t(w.size());
        for (size_t o = 0; o < out; ++o)
            for (size_t k = 0; k < taps; ++k)
                for (size_t i = 0; i < in; ++i) t[(k * in + i) * out + o] = w[(o * taps + k) * in + i];
        return t;
    }
    Floats turned_back(const Floats& t) const {
        const size_t in = size_t(s_.x.c), out = size_t(s_.y.c), taps = size_t(s_.kernel) * s_.kernel;
        Floats w(t.size());
        for (size_t o = 0; o < out; ++o)
            for (size_t k = 0; k < taps; ++k)
                for (size_t i = 0; i < in; ++i) w[(o * taps + k) * in + i] = t[(k * in + i) * out + o];
        return w;
    }

    /// Returns x as the convolution's input: padding is added after the ReLU, so missing pixels are
    /// left out.
    Floats source() const {
        Floats x = tensor(Slot::x);
        if (!s_.normalise) return x;
        const Floats scale = tensor(Slot::scale), bias = tensor(Slot::bias);
        for (size_t i = 0; i < x.size(); ++i)
            x[i] =
                std::max(rounded(s_.type, rounded(s_.type, x[i] * scale[i % channels()]) + bias[i % channels()]), 0.0f);
        return x;
    }

    void conv() const {
        const Floats x = source(), w = turned(tensor(Slot::weight));
        const size_t in = size_t(s_.x.c), out = size_t(s_.y.c);
        Floats y(s_.y.count());
        joined([&](int, size_t from, size_t to, size_t tap) {
            for (size_t i = 0; i < in; ++i)
                for (size_t o = 0; o < out; ++o) y[to + o] += x[from + i] * w[tap + i * out + o];
        });
        put(Slot::y, y);
        if (!s_.statistics) return;
        std::vector<double> sum(out), squares(out);
        for (size_t i = 0; i < y.size(); ++i) {
            const double v = rounded(s_.type, y[i]);
            sum[i % out] += v, squares[i % out] += v * v;
        }
        put_vector(Slot::sum, {sum.begin(), sum.end()});
        put_vector(Slot::squares, {squares.begin(), squares.end()});
    }

    void data_gradient() const {
        const Floats dy = tensor(Slot::dy), w = turned(tensor(Slot::weight));
        const size_t in = size_t(s_.x.c), out = size_t(s_.y.c);
        Floats dx(s_.x.count());
        joined([&](int, size_t to, size_t from, size_t tap) {
            for (size_t i = 0; i < in; ++i) {
                float sum = 0;
                for (size_t o = 0; o < out; ++o) sum += dy[from + o] * w[tap + i * out + o];
                dx[to + i] += sum;
            }
        });
        if (s_.add) {
            const Floats there = tensor(Slot::residual);
            for (size_t i = 0; i < dx.size(); ++i) dx[i] += there[i];
        }
        if (s_.statistics) {
            const Floats x = tensor(Slot::x), mean = vector(Slot::mean), invstd = vector(Slot::invstd);
            mask(dx, x, mean, invstd);
            const auto [dscale, dbias] = sums(dx, x, mean, invstd);
            put_vector(Slot::dscale, dscale);
            put_vector(Slot::dbias, dbias);
            const Floats nothing(channels(), NAN);  // unused: our kernels do the pass that would read these
            for (const Slot slot : {Slot::dy_factor, Slot::x_factor, Slot::offset}) put_vector(slot, nothing);
        }
        put(Slot::dx, dx);
    }

    void weight_gradient() const {
        const Floats dy = tensor(Slot::dy), x = source();
        const size_t in = size_t(s_.x.c), out = size_t(s_.y.c);
        std::vector<Floats> parts(size_t(s_.x.n), Floats(operand_bytes(s_, Slot::dweight) / size_of(s_.type)));
        joined([&](int n, size_t from, size_t to, size_t tap) {
            Floats& dw = parts[n];
            for (size_t i = 0; i < in; ++i)
                for (size_t o = 0; o < out; ++o) dw[tap + i * out + o] += x[from + i] * dy[to + o];
        });
        for (size_t n = 1; n < parts.size(); ++n)
            for (size_t i = 0; i < parts[0].size(); ++i) parts[0][i] += parts[n][i];
        put(Slot::dweight, turned_back(parts[0]));
    }

    void norm() const {
        const Floats x = tensor(Slot::x), scale = vector(Slot::scale), bias = vector(Slot::bias);
        const size_t c = channels();
        const double rows = double(s_.x.pixels());
        std::vector<double> sum(c), squares(c);
        for (size_t i = 0; i < x.size(); ++i) sum[i % c] += x[i];
        for (size_t i = 0; i < x.size(); ++i) squares[i % c] += std::pow(x[i] - sum[i % c] / rows, 2);
        Floats mean(c), invstd(c), next_mean = vector(Slot::running_mean), next_var = vector(Slot::running_var);
        for (size_t k = 0; k < c; ++k) {
            mean[k] = float(sum[k] / rows);
            invstd[k] = float(1 / std::sqrt(squares[k] / rows + double(s_.epsilon)));
            next_mean[k] += s_.momentum * (mean[k] - next_mean[k]);
            next_var[k] += s_.momentum * (float(squares[k] / (rows - 1)) - next_var[k]);
        }
        Floats y(x.size());
        const Floats residual = s_.add ? tensor(Slot::residual) : Floats();
        for (size_t i = 0; i < x.size(); ++i) {
            y[i] = (x[i] - mean[i % c]) * invstd[i % c] * scale[i % c] + bias[i % c] + (s_.add ? residual[i] : 0.0f);
            if (s_.relu && y[i] < 0) y[i] = 0;
        }
        put(Slot::y, y);
        put_vector(Slot::mean, mean);
        put_vector(Slot::invstd, invstd);
        put_vector(Slot::next_mean, next_mean);
        put_vector(Slot::next_var, next_var);
    }

    /// Sets g to zero where relu(batch norm(x)) is cut off, and rounds it to the stored type.
    void mask(Floats& g, const Floats& x, const Floats& mean, const Floats& invstd) const {
        const Floats scale = vector(Slot::scale), bias = vector(Slot::bias);
        for (size_t i = 0; i < g.size(); ++i) {
            const size_t c = i % channels();
            g[i] = (x[i] - mean[c]) * invstd[c] * scale[c] + bias[c] > 0 ? rounded(s_.type, g[i]) : 0.0f;
        }
    }
    /// Returns dscale and dbias.
    std::pair<Floats, Floats> sums(const Floats& g, const Floats& x, const Floats& mean, const Floats& invstd) const {
        const size_t c = channels();
        std::vector<double> dscale(c), dbias(c);
        for (size_t i = 0; i < g.size(); ++i)
            dbias[i % c] += g[i], dscale[i % c] += double(g[i]) * (x[i] - mean[i % c]) * invstd[i % c];
        return {{dscale.begin(), dscale.end()}, {dbias.begin(), dbias.end()}};
    }

    void norm_gradient() const {
        Floats g = tensor(Slot::dy);
        const Floats x = tensor(Slot::x), scale = vector(Slot::scale), mean = vector(Slot::mean),
                     invstd = vector(Slot::invstd);
        if (s_.relu) mask(g, x, mean, invstd);
        const auto [dscale, dbias] = sums(g, x, mean, invstd);
        const float rows = float(s_.x.pixels());
        for (size_t i = 0; i < g.size(); ++i) {
            const size_t c = i % channels();
            g[i] = scale[c] * invstd[c] * (g[i] - dbias[c] / rows - (x[i] - mean[c]) * invstd[c] * dscale[c] / rows);
        }
        put(Slot::dx, g);
        put_vector(Slot::dscale, dscale);
        put_vector(Slot::dbias, dbias);
    }

    const PlanSpec& s_;
    const std::map<Slot, void*>& operands_;
};

}  // namespace

void run_by_loops(const PlanSpec& spec, const std::map<Slot, void*>& operands) { Run(spec, operands).all(); }

}  // namespace convoy::test
