#include "backend/gpu/plan_spec.h"

#include <sstream>

namespace convoy::cuda {

std::string PlanSpec::family() const {
    constexpr const char* names[] = {"conv", "conv-data-gradient", "conv-weight-gradient", "norm", "norm-gradient"};
    return names[kind] + (' ' + std::string(name_of(type))) + (exact ? "-exact" : "") + (add ? " add" : "") +
           (relu ? " relu" : "") + (normalise ? " normalise" : "") + (statistics ? " statistics" : "");
}

std::string PlanSpec::key() const {
    std::ostringstream out;
    out << family() << " n" << x.n << ' ' << x.h << 'x' << x.w << 'x' << x.c;
    if (!is_norm()) out << "->" << y.h << 'x' << y.w << 'x' << y.c << " k" << kernel << " s" << stride << " p" << pad;
    if (kind == norm) out << " eps" << epsilon << " mom" << momentum;
    if (multiprocessors > 0) out << " sm" << multiprocessors;
    return out.str();
}

double PlanSpec::flops() const { return is_norm() ? 0 : 2.0 * double(y.count()) * kernel * kernel * x.c; }

PlanSpec conv_spec(PlanSpec::Kind kind, const Conv& op, const Shape& x, const Shape& y, DType type,
                   Precision precision) {
    PlanSpec s{kind, x, y, op.kernel, op.stride, op.pad, type};
    s.exact = precision == Precision::f32;
    return s;
}

PlanSpec linear_spec(PlanSpec::Kind kind, const Shape& x, int out, DType type, Precision precision) {
    const int stored = precision == Precision::f32 ? out : padded_channels(out);
    PlanSpec s{kind, {x.n, 1, 1, x.h * x.w * x.c}, {x.n, 1, 1, stored}, 1, 1, 0, type};
    s.exact = precision == Precision::f32;
    return s;
}

PlanSpec norm_spec(PlanSpec::Kind kind, const BatchNorm& op, const Shape& x, DType type) {
    PlanSpec s{kind, x, x};
    s.type = type;
    // No engine reads the ReLU's mask off y: if there is a residual, a kernel masks dy first.
    s.add = kind == PlanSpec::norm && op.residual != none;
    s.relu = op.act == Activation::relu && (kind == PlanSpec::norm || op.residual == none);
    s.epsilon = op.epsilon;
    s.momentum = op.momentum;
    return s;
}

bool sums_by_conv(const BatchNorm& op, DType type) { return type != DType::f32 && op.act != Activation::gelu; }

bool norm_in_conv(const BatchNorm& op, DType type) {
    return type == DType::f16 && op.act == Activation::relu && op.residual == none;
}

bool norm_by_cudnn(const BatchNorm& op, const Tensor& x, const Tensor* residual, Precision precision) {
    if (precision == Precision::f32 || precision == Precision::tf32 || x.shape.pixels() < 2 ||
        op.act == Activation::gelu)
        return false;
    return op.residual == none || (residual->shape == x.shape && residual->padding == x.padding && op.residual != op.x);
}

CopyShape weight_copy(const Shape& weight, const Shape& x, const Shape& y, DType type) {
    const int64_t pixels = int64_t(weight.h) * weight.w;
    return {weight.n * pixels, y.c * pixels, weight.c, x.c, type};
}

CopyShape linear_copy(int out, const Value& x, DType type) {
    const int64_t pixels = int64_t(x.h) * x.w;
    return {out * pixels, padded_channels(out) * pixels, x.c, x.c + x.padding, type};
}

}  // namespace convoy::cuda
