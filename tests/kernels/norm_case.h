// A batch norm with its reference, a scalar loop in double, and its tensors for the kernels.
#pragma once
#include "tests/kernels/support.h"  // must come first: it changes CUDA's headers

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/op_cases.h"

namespace convoy::test {

inline double activation(kernels::Act act, double z) {
    switch (act) {
        case kernels::Act::identity: return z;
        case kernels::Act::relu: return std::max(z, 0.0);
        case kernels::Act::gelu: return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
    }
    return NAN;
}
inline double derivative(kernels::Act act, double z) {
    constexpr double h = 1e-5;  // the difference's error is about h^2
    return act == kernels::Act::relu ? double(z > 0) : (activation(act, z + h) - activation(act, z - h)) / (2 * h);
}

/// A batch norm's data, dense, and the expected results.
struct Norm {
    Shape shape;
    kernels::Act act;
    bool scaled = true;
    Floats x, dy, scale, bias;
    Doubles y, dx, dscale, dbias;
    static constexpr double epsilon = 1e-5;

    Norm(Shape s, kernels::Act a, DType type, bool with_scale = true) : shape(s), act(a), scaled(with_scale) {
        x = rounded(normals(s.count(), 1, 0.5f), type);
        dy = rounded(normals(s.count(), 2), type);
        scale = normals(size_t(s.c), 3, 1, scaled ? 0.2f : 0.0f);
        bias = normals(size_t(s.c), 4, 0, 0.2f);
    }
    void work_out() {
        const size_t c = scale.size(), rows = shape.pixels();
        y = dx = Doubles(x.size());
        dscale = dbias = Doubles(c);
        for (size_t k = 0; k < c; ++k) {
            double mean = 0, var = 0;
            for (size_t i = k; i < x.size(); i += c) mean += double(x[i]) / double(rows);
            for (size_t i = k; i < x.size(); i += c) var += std::pow(double(x[i]) - mean, 2) / double(rows);
            const double invstd = 1 / std::sqrt(var + epsilon);
            const auto centred = [&](size_t i) { return (double(x[i]) - mean) * invstd; };
            const auto gradient = [&](size_t i) {
                return double(dy[i]) * derivative(act, centred(i) * double(scale[k]) + double(bias[k]));
            };
            for (size_t i = k; i < x.size(); i += c) {
                y[i] = activation(act, centred(i) * double(scale[k]) + double(bias[k]));
                dbias[k] += gradient(i);
                dscale[k] += gradient(i) * centred(i);
            }
            for (size_t i = k; i < x.size(); i += c)
                dx[i] = double(scale[k]) * invstd *
                        (gradient(i) - dbias[k] / double(rows) - centred(i) * dscale[k] / double(rows));
        }
    }
};

/// Images of a Norm in the form that kernels take: those of one rank.
struct Rank {
    Norm norm;
    KernelTensor x, y, dy, dx;
    Floats mean, invstd, running_mean, running_var, dscale, dbias;
    std::vector<unsigned char> workspace;

    Rank(const Norm& n, Layout layout)
        : norm(n), x(n.shape, layout, n.x), y(n.shape, layout), dy(n.shape, layout, n.dy), dx(n.shape, layout) {
        const size_t c = n.scale.size();
        dscale = dbias = Floats(c, NAN);
        mean = invstd = Floats(size_t(x.tensor().shape.c), NAN);
        running_mean = Floats(c, 0.25f);
        running_var = Floats(c, 1.5f);
        workspace.assign(kernels::batch_norm_workspace(x.tensor().shape), 0xff);
    }
    kernels::BatchNormArgs args() {
        return {x.tensor(),
                y.tensor(),
                {},
                norm.shape.c,
                0,
                norm.act,
                norm.scaled ? norm.scale.data() : nullptr,
                norm.bias.data(),
                mean.data(),
                invstd.data(),
                running_mean.data(),
                running_var.data(),
                float(Norm::epsilon),
                0.4f};
    }
    kernels::BatchNormGradients gradients() {
        return {dy.tensor(), dx.tensor(), {}, norm.scaled ? dscale.data() : nullptr, dbias.data()};
    }
    void run() {
        kernels::batch_norm_forward(args(), workspace.data(), nullptr);
        workspace.assign(workspace.size(), 0xff);  // no data may be passed on in the workspace
        kernels::batch_norm_backward(args(), gradients(), workspace.data(), nullptr);
    }
    std::vector<Floats> results() const {
        return {y.get(), dx.get(), norm.scaled ? dscale : dbias, dbias, running_mean, running_var};
    }
};

inline double length(const Doubles& v) { return test::length(Floats(v.begin(), v.end())); }
inline double distance(const Floats& a, const Doubles& b) { return test::distance(a, Floats(b.begin(), b.end())); }

// The tolerance in f32 is 2e-6: statistics are exact to float, erff and expf to 2e-7, and a sum's
// terms cancel, as in op_cases.cpp. Stored values are then rounded.
inline void check(Norm n, const std::vector<Floats>& got, DType type) {
    n.work_out();
    const double stored = 2e-6 + (type == DType::f32 ? 0 : rounding(type));
    EXPECT_LE(distance(got[0], n.y), stored * length(n.y));
    EXPECT_LE(distance(got[1], n.dx), stored * length(n.dx));
    if (n.scaled) {
        EXPECT_LE(distance(got[2], n.dscale), 2e-6 * length(n.dscale));
    }
    EXPECT_LE(distance(got[3], n.dbias), 2e-6 * length(n.dbias));
}

}  // namespace convoy::test
