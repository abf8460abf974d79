#include "backend/gpu/plan_spec.h"

#include <cmath>
#include <iterator>
#include <sstream>

namespace convoy::cuda {

const char* name_of(Slot slot) {
    constexpr const char* names[] = {"x",           "weight",    "y",        "dy",     "dx",     "dweight",
                                     "residual",    "scale",     "bias",     "mean",   "invstd", "running_mean",
                                     "running_var", "next_mean", "next_var", "dscale", "dbias",  "sum",
                                     "squares",     "dy_factor", "x_factor", "offset"};
    static_assert(std::size(names) == size_t(Slot::offset));
    return names[size_t(slot) - 1];
}

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

double PlanSpec::blocks() const {
    constexpr double tile = 128, depth = 512;
    const double of_weight = double(kernel) * kernel * x.c;  // columns of the weight as a matrix
    const double rows = kind == conv_data_gradient ? double(x.pixels()) : kind == conv ? double(y.pixels()) : y.c;
    const double columns = kind == conv_data_gradient ? x.c : kind == conv ? y.c : of_weight;
    return std::ceil(rows / tile) * std::ceil(columns / tile) * std::ceil(flops() / 2 / (rows * columns) / depth);
}

std::vector<Slot> operands_of(const PlanSpec& s) {
    using enum Slot;
    std::vector<Slot> slots;
    switch (s.kind) {
        case PlanSpec::conv:
            slots = {x, weight, y};
            if (s.statistics) slots.insert(slots.end(), {sum, squares});
            break;
        case PlanSpec::conv_data_gradient:
            slots = {dy, weight, dx};
            if (s.statistics)
                slots.insert(slots.end(), {x, scale, bias, mean, invstd, dscale, dbias, dy_factor, x_factor, offset});
            break;
        case PlanSpec::conv_weight_gradient: slots = {dy, x, dweight}; break;
        case PlanSpec::norm:
            slots = {x, scale, bias, running_mean, running_var, mean, invstd, next_mean, next_var, y};
            break;
        case PlanSpec::norm_gradient: slots = {dy, x, scale, mean, invstd, dx, dscale, dbias}; break;
    }
    if (s.normalise) slots.insert(slots.end(), {scale, bias});
    if (s.add) slots.push_back(residual);
    if (s.kind == PlanSpec::norm_gradient && s.relu) slots.push_back(bias);
    return slots;
}

size_t operand_bytes(const PlanSpec& s, Slot slot) {
    switch (slot) {
        case Slot::x:
        case Slot::dx:
        case Slot::residual: return s.x.count() * size_of(s.type);
        case Slot::y:
        case Slot::dy: return s.y.count() * size_of(s.type);
        case Slot::weight:
        case Slot::dweight: return size_t(s.y.c) * s.kernel * s.kernel * s.x.c * size_of(s.type);
        case Slot::sum:
        case Slot::squares: return size_t(s.y.c) * sizeof(float);
        default: return size_t(s.x.c) * (s.normalise ? size_of(s.type) : sizeof(float));
    }
}

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
    // No engine takes the ReLU's mask from y. If there is a residual, a kernel masks dy first.
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
