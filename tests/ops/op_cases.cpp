// The table of cases. Sizes are odd on purpose: channels do not fill a vector register, and no
// stride divides the sides.
#include "tests/ops/op_cases.h"

#include <algorithm>
#include <cmath>

#include "model/precision.h"

namespace convoy::test {
namespace {

/// Builds graphs by hand: shapes that the models' builder would not make.
struct Sketch {
    Graph graph;
    ValueId value(int h, int w, int c) {
        graph.values.push_back({"v", h, w, c});
        return int(graph.values.size()) - 1;
    }
    ParamId param(Shape shape, Init init, bool trained = true) {
        graph.params.push_back({"p", shape, init, trained, false});
        return int(graph.params.size()) - 1;
    }
    ParamId vector(int c, float start, bool trained = true) {
        return param({1, 1, 1, c}, {Init::constant, start}, trained);
    }
};

struct ConvSize {
    int batch, h, w, in, out, kernel, stride, pad;
    bool bias;
};

// A dot product of K terms in float has an error of about sqrt(K) / 2 units of its last place, 6e-8
// each. K reaches 2,541 forward and in the data gradient, 784 in the weight gradient. The maximum
// over an output is a few deviations larger.
OpCase conv(const ConvSize& s) {
    Sketch k;
    const ValueId x = k.value(s.h, s.w, s.in);
    const ValueId y =
        k.value((s.h + 2 * s.pad - s.kernel) / s.stride + 1, (s.w + 2 * s.pad - s.kernel) / s.stride + 1, s.out);
    const float deviation = 1 / std::sqrt(float(s.kernel * s.kernel * s.in));
    const ParamId weight = k.param({s.out, s.kernel, s.kernel, s.in}, {Init::normal, deviation});
    const ParamId bias = s.bias ? k.param({1, 1, 1, s.out}, {Init::normal, 1}) : none;
    k.graph.ops.push_back(Conv{x, y, weight, bias, s.kernel, s.stride, s.pad});
    const auto n = [](int i) { return std::to_string(i); };
    return {"conv" + n(s.kernel) + "_stride" + n(s.stride) + "_pad" + n(s.pad) + (s.bias ? "_bias" : "") + "_" +
                n(s.in) + "to" + n(s.out) + "_batch" + n(s.batch),
            k.graph, s.batch, 2e-6, 2e-6};
}

struct NormSize {
    const char* name;
    int batch, h, w, c, residual;  // residual: number of its channels, 0 for none
    bool relu;
    float offset = 0;
};

// Statistics are exact to float. y = a x + b and the gradient's x - mean cancel if the mean is far
// from zero: 6e-8 of |a x| each. So the tolerance grows with the offset in units of the deviation.
OpCase norm(const NormSize& s) {
    Sketch k;
    const ValueId x = k.value(s.h, s.w, s.c), y = k.value(s.h, s.w, s.c);
    BatchNorm bn{
        x, y, k.vector(s.c, 1), k.vector(s.c, 0), k.vector(s.c, s.offset, false), k.vector(s.c, 1, false), 1e-5f, 0.1f};
    if (s.residual) bn.residual = k.value(s.h, s.w, s.residual);
    if (s.relu) bn.act = Activation::relu;
    k.graph.ops.push_back(bn);
    const double far = 1.5e-7 * std::abs(double(s.offset));
    return {std::string("norm_") + s.name, k.graph, s.batch, 1e-6 + far, 2e-6 + far, 1e-5, s.offset};
}

// A one-pixel batch has no variance: invstd is 1 / sqrt(epsilon) = 316, and x - mean cancels from
// values 316 times as large. For two pixels the results are -1 and 1 whatever x is, so the gradient
// is the remainder of a cancellation.
OpCase norm_of_few_pixels(const char* name, int pixels) {
    OpCase c = norm({name, pixels, 1, 1, 21, 0, false});
    c.value_tolerance = 316 * 3e-7;
    c.gradient_tolerance = 3e-3;
    return c;
}

// GELU's derivative with erff and expf has an error of up to 4e-7 per term, like gelu() below. If n
// terms cancel to the size of one, root n of that error is left.
OpCase norm_gelu(const NormSize& s) {
    OpCase c = norm(s);
    c.gradient_tolerance += 4e-7 * std::sqrt(double(s.batch * s.h * s.w));
    std::get<BatchNorm>(c.graph.ops[0]).act = Activation::gelu;
    return c;
}

/// The scale is frozen, so its gradient is not wanted.
OpCase norm_without_scale_gradient(const NormSize& s) {
    OpCase c = norm_gelu(s);
    c.graph.params[std::get<BatchNorm>(c.graph.ops[0]).scale].frozen = true;
    return c;
}

/// Scale and bias are frozen; `fixed`: so are the statistics.
OpCase frozen_norm(OpCase c, bool fixed) {
    auto& bn = std::get<BatchNorm>(c.graph.ops[0]);
    for (const ParamId id : {bn.scale, bn.bias}) c.graph.params[id].frozen = true;
    bn.fixed = fixed;
    c.name += fixed ? "_fixed" : "_frozen";
    return c;
}

OpCase frozen_linear(OpCase c, bool bias) {
    const auto& linear = std::get<Linear>(c.graph.ops[0]);
    c.graph.params[bias ? linear.bias : linear.weight].frozen = true;
    c.name += bias ? "_frozen_bias" : "_frozen";
    return c;
}

/// A CPU with AVX-512 runs Winograd's algorithm, whose error is about twice that of a direct sum.
OpCase winograd(const ConvSize& s) {
    OpCase c = conv(s);
    c.value_tolerance = c.gradient_tolerance = 4e-6;
    return c;
}

OpCase frozen_conv(const ConvSize& s) {
    OpCase c = conv(s);
    c.graph.params[std::get<Conv>(c.graph.ops[0]).weight].frozen = true;
    c.name += "_frozen";
    return c;
}

/// Builds y = norm(x) + x.
OpCase norm_of_its_own_residual() {
    OpCase c = norm({"own_residual", 2, 5, 3, 21, 0, true});
    BatchNorm& bn = std::get<BatchNorm>(c.graph.ops[0]);
    bn.residual = bn.x;
    return c;
}

OpCase relu(int batch, int h, int w, int c) {
    Sketch k;
    const ValueId x = k.value(h, w, c), y = k.value(h, w, c);
    k.graph.ops.push_back(Relu{x, y});
    return {"relu_" + std::to_string(c), k.graph, batch, 0, 1e-6, 1e-6};  // exact; the check itself sums
}

// erf has an error of 4e-7, times half of x. So has the derivative, which differences resolve to
// 1e-8.
OpCase gelu(int batch, int h, int w, int c) {
    Sketch k;
    const ValueId x = k.value(h, w, c), y = k.value(h, w, c);
    k.graph.ops.push_back(Gelu{x, y});
    return {"gelu_" + std::to_string(c), k.graph, batch, 5e-7, 2e-6, 1e-5};
}

OpCase scale(float factor) {
    Sketch k;
    const ValueId x = k.value(1, 1, 10), y = k.value(1, 1, 10);
    k.graph.ops.push_back(Scale{x, y, factor});
    return {"scale", k.graph, 5, 1e-7, 1e-6};  // one rounding
}

OpCase add(const std::string& name, bool twice) {
    Sketch k;
    const ValueId a = k.value(5, 7, 21), b = twice ? a : k.value(5, 7, 21), y = k.value(5, 7, 21);
    k.graph.ops.push_back(Add{a, b, y});
    return {name, k.graph, 5, 1e-7, 1e-6};  // one rounding
}

// A maximum is a copy; an average of at most 81 terms is accurate to a few units of the last place.
OpCase pool(Pool::Kind kind, int batch, int h, int w, int c, int kernel, int stride, int pad) {
    Sketch k;
    const ValueId x = k.value(h, w, c);
    const ValueId y = k.value((h + 2 * pad - kernel) / stride + 1, (w + 2 * pad - kernel) / stride + 1, c);
    k.graph.ops.push_back(Pool{kind, x, y, kernel, stride, pad});
    const bool max = kind == Pool::max;
    return {std::string(max ? "max" : "average") + std::to_string(kernel) + "_stride" + std::to_string(stride) +
                "_pad" + std::to_string(pad) + "_" + std::to_string(c) + "_batch" + std::to_string(batch),
            k.graph,
            batch,
            max ? 0 : 3e-7,
            1e-6,
            max ? 1e-6 : 1};
}

OpCase shortcut(int batch, int h, int w, int in, int out, int stride) {
    Sketch k;
    const ValueId x = k.value(h, w, in), y = k.value(h / stride, w / stride, out);
    k.graph.ops.push_back(PadShortcut{x, y, stride});
    return {"shortcut_stride" + std::to_string(stride) + "_" + std::to_string(in) + "to" + std::to_string(out), k.graph,
            batch, 3e-7, 1e-6};
}

// The tolerance is that of convolutions, with K up to 735.
OpCase linear(int batch, int h, int w, int c, int out, bool biased = true) {
    Sketch k;
    const ValueId x = k.value(h, w, c), y = k.value(1, 1, out);
    const int in = h * w * c;
    const ParamId weight = k.param({out, 1, 1, in}, {Init::normal, 1 / std::sqrt(float(in))}),
                  bias = biased ? k.param({1, 1, 1, out}, {Init::normal, 1}) : none;
    k.graph.ops.push_back(Linear{x, y, weight, bias});
    return {"linear_" + std::to_string(in) + "to" + std::to_string(out) + "_batch" + std::to_string(batch) +
                (biased ? "" : "_plain"),
            k.graph, batch, 2e-6, 2e-6};
}

OpCase dropout(bool whole_channels) {
    Sketch k;
    const ValueId x = k.value(5, 3, 26), y = k.value(5, 3, 26);
    k.graph.ops.push_back(Dropout{x, y, 0.3f, whole_channels, 2});
    OpCase c{whole_channels ? "dropout_channels" : "dropout", k.graph, 5, 3e-7, 1e-6};  // one product
    c.setting.first = 11;
    c.setting.step = 3;
    return c;
}

// The loss is summed in double and stored as a float. Its gradient is a difference of numbers up to
// 1, so accurate to 6e-8 of that.
OpCase loss(int batch, int classes, float smoothing, bool sum = false) {
    Sketch k;
    k.graph.classes = classes;
    k.graph.ops.push_back(SoftmaxXent{k.value(1, 1, classes), smoothing, sum});
    OpCase c{"loss_" + std::to_string(classes) + (smoothing > 0 ? "_smoothed" : "") + (sum ? "_sum" : ""),
             k.graph,
             batch,
             2e-7,
             1e-6,
             1e-5};
    c.setting.global_batch = 2 * batch + 1;
    return c;
}

/// Adds each case in bf16 and f16, whose numbers have 8 and 11 digits. The op's inputs are rounded
/// on both sides. Its output is rounded once, by at most half of its last place: 2^-8 or 2^-11 of
/// an element. A gradient that is added to a rounded one has two such roundings.
std::vector<OpCase> in_all_types(std::vector<OpCase> cases) {
    const size_t n = cases.size();
    for (const auto& [precision, half_place] : {std::pair{Precision::bf16, 0x1p-8}, {Precision::f16, 0x1p-11}})
        for (size_t i = 0; i < n; ++i) {
            if (output_of(cases[i].op()) == none) continue;
            OpCase low = cases[i];
            low.name += std::string("_") + name_of(precision);
            low.padded = with_precision(low.graph, precision);
            low.graph = with_precision(low.graph, precision, 1);
            low.value_tolerance += half_place * 1.01;
            low.gradient_tolerance += 2 * half_place;
            cases.push_back(low);
        }
    return cases;
}

}  // namespace

const std::vector<OpCase>& op_cases() {
    constexpr auto max = Pool::max, average = Pool::average;
    static const std::vector<OpCase> cases = in_all_types(
        {conv({2, 5, 7, 3, 16, 1, 1, 0, false}), conv({1, 7, 5, 16, 21, 1, 2, 0, false}),
         conv({5, 1, 1, 26, 31, 1, 1, 0, true}), conv({2, 7, 9, 21, 26, 3, 1, 1, false}),
         conv({5, 5, 3, 3, 16, 3, 1, 1, false}), conv({1, 9, 9, 1, 31, 3, 1, 1, true}),
         conv({2, 5, 7, 26, 31, 3, 1, 1, false}), conv({5, 9, 7, 31, 16, 3, 2, 1, false}),
         conv({2, 8, 8, 16, 21, 3, 2, 1, true}), conv({2, 7, 7, 3, 21, 2, 2, 0, false}),
         conv({1, 8, 6, 21, 3, 2, 1, 0, true}), conv({5, 9, 11, 1, 10, 5, 1, 0, true}),
         conv({2, 7, 5, 10, 21, 5, 1, 2, true}), conv({2, 15, 13, 3, 16, 7, 2, 3, false}),
         conv({1, 14, 10, 21, 3, 7, 2, 3, false}),
         // many weights
         conv({2, 3, 5, 1024, 1030, 1, 1, 0, false}), conv({1, 4, 5, 1027, 1024, 1, 2, 0, false}),
         conv({2, 5, 4, 171, 683, 3, 2, 1, false}), winograd({12, 9, 7, 16, 21, 3, 1, 1, false}),
         winograd({50, 4, 5, 31, 33, 3, 1, 1, false}), winograd({3, 17, 19, 33, 48, 3, 1, 1, false}),
         winograd({61, 3, 3, 17, 16, 3, 1, 1, false}), winograd({40, 7, 7, 17, 19, 3, 1, 1, false}),
         winograd({7, 5, 4, 150, 131, 3, 1, 1, false}),  // more channels than one transform takes
         frozen_conv({2, 7, 9, 3, 24, 2, 1, 0, true}), frozen_conv({1, 5, 5, 3, 16, 3, 1, 1, false}),
         norm({"1", 5, 3, 7, 1, 0, false}), norm({"3_relu", 2, 9, 5, 3, 0, true}), norm({"16", 1, 7, 7, 16, 0, false}),
         norm({"21_relu", 5, 5, 7, 21, 0, true}), norm({"26_residual", 2, 5, 7, 26, 26, false}),
         norm({"31_residual_relu", 5, 3, 7, 31, 31, true}), norm({"26_residual21", 2, 7, 5, 26, 21, false}),
         norm({"31_residual26_relu", 2, 5, 5, 31, 26, true}), norm({"21_residual16_relu", 1, 3, 3, 21, 16, true}),
         norm({"far", 5, 7, 9, 21, 0, false, 1000}), norm({"far_relu", 2, 9, 7, 3, 0, true, -1000}),
         norm({"many_rows", 5, 15, 13, 3, 3, true}), norm_gelu({"1_gelu", 5, 3, 7, 1, 0, false}),
         norm_gelu({"26_gelu", 2, 5, 7, 26, 0, false}),
         norm_without_scale_gradient({"21_gelu_frozen", 5, 5, 3, 21, 0, false}), norm_of_few_pixels("one_pixel", 1),
         frozen_norm(norm({"21_relu", 5, 5, 7, 21, 0, true}), false),
         frozen_norm(norm({"31_residual_relu", 5, 3, 7, 31, 31, true}), false),
         frozen_norm(norm({"21", 5, 5, 7, 21, 0, false}), true),
         frozen_norm(norm({"3_relu", 2, 9, 5, 3, 0, true}), true),
         frozen_norm(norm({"31_residual26_relu", 2, 5, 5, 31, 26, true}), true),
         frozen_norm(norm_gelu({"26_gelu", 2, 5, 7, 26, 0, false}), true), norm_of_few_pixels("two_pixels", 2),
         norm_of_its_own_residual(), relu(5, 3, 7, 21), relu(1, 1, 1, 1), gelu(5, 3, 7, 21), gelu(1, 1, 1, 1),
         scale(1.0f / 9), add("add", false), add("add_twice_the_same", true), pool(max, 2, 9, 7, 16, 3, 2, 1),
         pool(max, 5, 8, 8, 21, 3, 2, 1), pool(max, 2, 7, 9, 3, 2, 2, 0), pool(max, 1, 6, 4, 31, 2, 2, 0),
         pool(max, 5, 3, 3, 21, 3, 3, 0), pool(max, 2, 10, 7, 16, 3, 3, 0), pool(average, 2, 7, 7, 21, 7, 7, 0),
         pool(average, 5, 9, 9, 26, 9, 9, 0), pool(average, 2, 7, 9, 3, 3, 2, 1), pool(average, 1, 7, 5, 16, 2, 2, 0),
         shortcut(2, 5, 7, 21, 26, 1), shortcut(5, 6, 10, 16, 21, 2), shortcut(1, 2, 2, 3, 3, 2),
         linear(1, 1, 1, 10, 10), linear(5, 5, 7, 21, 3), linear(2, 3, 3, 31, 26), linear(5, 1, 1, 256, 10, false),
         frozen_linear(linear(5, 3, 3, 21, 10), false), frozen_linear(linear(2, 1, 1, 31, 26), true), dropout(false),
         dropout(true), loss(5, 10, 0), loss(1, 3, 0.1f), loss(2, 1000, 0.1f), loss(5, 10, 0.2f, true),
         loss(5, 37, 0)});
    return cases;
}

}  // namespace convoy::test
