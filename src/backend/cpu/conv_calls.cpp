#include "backend/cpu/conv_calls.h"

#include "backend/cpu/patches.h"
#include "backend/cpu/rows.h"
#include "backend/cpu/winograd.h"

namespace convoy::cpu {
namespace {

// ---- oneDNN's convolutions; each reorders the weights once per direction and step ----

constexpr auto direct_algorithm = dnnl::algorithm::convolution_direct;

/// oneDNN's descriptions of the operands, which it multiplies in `type`.
struct Descs {
    Desc x, weight, bias, y;
    dnnl::memory::dims stride, pad;
    Descs(const ConvCall& c, DType type)
        : x(of_type(nhwc(c.x), type)),
          weight(ohwi(c.weight)),
          y(of_type(nhwc(c.y), type)),
          stride{c.op.stride, c.op.stride},
          pad{c.op.pad, c.op.pad} {
        if (c.bias.data) bias = Desc({c.bias.shape.c}, dnnl_type(DType::f32), dnnl::memory::format_tag::x);
    }
    Desc any_weight() const { return {weight.get_dims(), x.get_data_type(), dnnl::memory::format_tag::any}; }
};

dnnl::convolution_forward::primitive_desc forward_desc(const dnnl::engine& engine, const Descs& d, bool training) {
    const auto prop = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    if (d.bias)
        return {engine, prop,  direct_algorithm,   d.x, d.any_weight(), d.bias, d.y, d.stride,
                d.pad,  d.pad, Calls::attributes()};
    return {engine, prop, direct_algorithm, d.x, d.any_weight(), d.y, d.stride, d.pad, d.pad, Calls::attributes()};
}

/// Reads a value or gradient as `wanted`; converts it if its type differs.
Calls::Operand read(Calls& calls, int argument, const Tensor& t, const Desc& wanted) {
    return calls.as_layout(calls.fixed(argument, nhwc(t), t.data), wanted);
}

void direct_forward(Calls& calls, const dnnl::engine& engine, const ConvCall& c, const Descs& d) {
    const auto pd = forward_desc(engine, d, c.training);
    const auto target = calls.target(DNNL_ARG_DST, c.y, d.y, false);
    std::vector<Calls::Operand> operands = {
        read(calls, DNNL_ARG_SRC, c.x, d.x),
        calls.as_layout(calls.fixed(DNNL_ARG_WEIGHTS, d.weight, c.weight.data), pd.weights_desc()), target};
    if (d.bias) operands.push_back(calls.fixed(DNNL_ARG_BIAS, d.bias, c.bias.data));
    calls.add(dnnl::convolution_forward(pd), operands, pd.scratchpad_desc());
    calls.deliver(target, c.y, false);
}

void direct_weight_gradient(Calls& calls, const dnnl::engine& engine, const ConvCall& c, const Descs& d) {
    const auto hint = forward_desc(engine, d, true);
    const dnnl::convolution_backward_weights::primitive_desc pd(engine, direct_algorithm, d.x, any_layout(d.weight),
                                                                d.y, d.stride, d.pad, d.pad, hint, Calls::attributes());
    const auto gradient = calls.fixed(DNNL_ARG_DIFF_WEIGHTS, d.weight, c.weight.data);
    const bool plain = pd.diff_weights_desc() == d.weight;
    const auto written = plain ? gradient : calls.temporary(DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc());
    calls.add(dnnl::convolution_backward_weights(pd),
              {read(calls, DNNL_ARG_SRC, c.x, d.x), read(calls, DNNL_ARG_DIFF_DST, c.y, d.y), written},
              pd.scratchpad_desc());
    if (!plain) calls.copy(written, gradient);
}

void direct_data_gradient(Calls& calls, const dnnl::engine& engine, const ConvCall& c, const Descs& d) {
    const auto hint = forward_desc(engine, d, true);
    const dnnl::convolution_backward_data::primitive_desc pd(engine, direct_algorithm, d.x, d.any_weight(), d.y,
                                                             d.stride, d.pad, d.pad, hint, Calls::attributes());
    const auto target = calls.target(DNNL_ARG_DIFF_SRC, c.x, d.x, c.add);
    calls.add(dnnl::convolution_backward_data(pd),
              {read(calls, DNNL_ARG_DIFF_DST, c.y, d.y),
               calls.as_layout(calls.fixed(DNNL_ARG_WEIGHTS, d.weight, c.weight.data), pd.weights_desc()), target},
              pd.scratchpad_desc());
    calls.deliver(target, c.x, c.add);
}

void append_direct(Calls& calls, const dnnl::engine& engine, LaunchPhase direction, const ConvCall& c, DType type) {
    const Descs d(c, type);
    if (direction == LaunchPhase::forward) return direct_forward(calls, engine, c, d);
    if (direction == LaunchPhase::weight_gradient) return direct_weight_gradient(calls, engine, c, d);
    direct_data_gradient(calls, engine, c, d);
}

// ---- Winograd ----

void append_winograd(Calls& calls, LaunchPhase direction, const ConvCall& c, int tile) {
    const Shape& x = c.x.shape;
    const Winograd w{x.n, x.h, x.w, x.c, c.y.shape.c, c.threads, tile};
    const size_t space_at = calls.reserve(w.workspace_bytes());
    auto* const weight = c.weight.as<float>();
    with_type(c.x.dtype, [&]<class E>(E) {
        E *const at_x = c.x.as<E>(), *const at_y = c.y.as<E>();
        if (direction == LaunchPhase::forward)
            calls.add(space_at, [=](void* space) { w.forward(at_x, weight, at_y, space); });
        else if (direction == LaunchPhase::weight_gradient)
            calls.add(space_at, [=](void* space) { w.weight_gradient(at_x, at_y, weight, space); });
        else
            calls.add(space_at, [=, add = c.add](void* space) { w.data_gradient(at_y, weight, at_x, add, space); });
    });
}

// ---- GEMMs ----

/// Returns the matrix of patches: x itself, or a temporary into which they are gathered.
Calls::Operand gathered(Calls& calls, int argument, const Tensor& x, const Patches& p, DType type) {
    if (p.are_pixels()) return calls.matrix_of(argument, x, x.shape.c, type);
    const auto to = calls.temporary(argument, matrix(p.rows(), p.columns(), DType::f32));
    with_type(x.dtype, [&]<class E>(E) {
        calls.add(to.offset, [p, from = x.as<E>()](void* patches) { p.gather(from, static_cast<float*>(patches)); });
    });
    return to;
}

/// Returns the weights [out][k k in] as `type`, optionally transposed.
Calls::Operand weights(Calls& calls, const ConvCall& c, const Patches& p, DType type, bool transposed) {
    const int out = c.y.shape.c;
    const auto desc = [&](DType t) {
        return transposed ? matrix(p.columns(), out, t, true) : matrix(out, p.columns(), t);
    };
    return calls.as_layout(calls.fixed(DNNL_ARG_WEIGHTS, desc(DType::f32), c.weight.data), desc(type));
}

void gemm_data_gradient(Calls& calls, const ConvCall& c, const Patches& p, DType type) {
    const auto left = calls.matrix_of(DNNL_ARG_SRC, c.y, c.y.shape.c, type), right = weights(calls, c, p, type, false);
    const Desc product = matrix(p.rows(), p.columns(), type);
    if (!p.are_pixels()) {
        const auto target = calls.temporary(DNNL_ARG_DST, product);
        calls.multiply(left, right, target);
        with_type(c.x.dtype, [&]<class E>(E) {
            calls.add(target.offset, [p, to = c.x.as<E>(), add = c.add](void* patches) {
                p.scatter(static_cast<const float*>(patches), to, add);
            });
        });
    } else if (c.add && c.x.dtype == type) {  // the GEMM adds to dx itself
        calls.multiply(left, right, calls.fixed(DNNL_ARG_DST, product, c.x.data), true);
    } else {
        const auto target = calls.target(DNNL_ARG_DST, c.x, product, c.add);
        calls.multiply(left, right, target);
        calls.deliver(target, c.x, c.add);
    }
}

void append_gemm(Calls& calls, LaunchPhase direction, const ConvCall& c, DType type) {
    const Shape &x = c.x.shape, &y = c.y.shape;
    const Patches p{x.n, x.h, x.w, x.c, c.op.kernel, c.op.stride, c.op.pad, y.h, y.w, c.threads};
    if (direction == LaunchPhase::data_gradient) return gemm_data_gradient(calls, c, p, type);
    if (direction == LaunchPhase::weight_gradient) {
        const auto left = calls.matrix_of(DNNL_ARG_SRC, c.y, y.c, type, true),
                   right = gathered(calls, DNNL_ARG_WEIGHTS, c.x, p, type);
        return calls.multiply(left, right,
                              calls.fixed(DNNL_ARG_DST, matrix(y.c, p.columns(), DType::f32), c.weight.data));
    }
    const auto target = calls.target(DNNL_ARG_DST, c.y, matrix(p.rows(), y.c, type), false);
    const auto left = gathered(calls, DNNL_ARG_SRC, c.x, p, type);
    calls.multiply(left, weights(calls, c, p, type, true), target);
    calls.deliver(target, c.y, false);
}

}  // namespace

void append(Calls& calls, const dnnl::engine& engine, LaunchPhase direction, const ConvCall& c, ConvBy by) {
    switch (by) {
        case ConvBy::direct: return append_direct(calls, engine, direction, c, DType::f32);
        case ConvBy::direct_bf16: return append_direct(calls, engine, direction, c, DType::bf16);
        case ConvBy::winograd: return append_winograd(calls, direction, c, 4);
        case ConvBy::winograd_large:
            return append_winograd(calls, direction, c, Winograd::large_tile(c.x.shape.h, c.x.shape.w));
        case ConvBy::gemm: return append_gemm(calls, direction, c, DType::f32);
        case ConvBy::gemm_bf16: return append_gemm(calls, direction, c, DType::bf16);
        case ConvBy::measured: break;
    }
    require(false, "a convolution has a selected algorithm");
}

}  // namespace convoy::cpu
