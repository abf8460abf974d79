// Convolution on plain NHWC activations, in one of three ways:
// - Winograd: 3x3, stride 1, if the processor multiplies fastest in f32;
// - a matrix product of patches: the same processors, weights larger than the second cache;
// - oneDNN's convolutions: all others. They reorder the weights once a direction and step.
#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/patches.h"
#include "backend/cpu/primitives.h"
#include "backend/cpu/rows.h"
#include "backend/cpu/winograd.h"

namespace convoy::cpu {
namespace {

using Dims = dnnl::memory::dims;
constexpr auto direct = dnnl::algorithm::convolution_direct;

/// What oneDNN multiplies, in the type that it is fastest in.
struct Descs {
    Desc x, weight, bias, y;
    Dims stride, pad;
    Descs(const Conv& op, const Bound& b, DType type)
        : x(of_type(nhwc(b.values[op.x]), type)),
          weight(ohwi(b.params[op.weight])),
          y(of_type(nhwc(b.values[op.y]), type)),
          stride{op.stride, op.stride},
          pad{op.pad, op.pad} {
        if (op.bias != none)
            bias = Desc({b.params[op.bias].shape.c}, dnnl_type(DType::f32), dnnl::memory::format_tag::x);
    }
    Desc any_weight() const { return {weight.get_dims(), x.get_data_type(), dnnl::memory::format_tag::any}; }
};

dnnl::convolution_forward::primitive_desc forward_desc(const dnnl::engine& engine, const Descs& d, bool training) {
    const auto prop = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    if (d.bias)
        return {engine, prop, direct, d.x, d.any_weight(), d.bias, d.y, d.stride, d.pad, d.pad, Calls::attributes()};
    return {engine, prop, direct, d.x, d.any_weight(), d.y, d.stride, d.pad, d.pad, Calls::attributes()};
}

/// A value or gradient as `wanted`, converted if it is of another type.
Calls::Operand read(Calls& calls, int argument, const Tensor& t, const Desc& wanted) {
    return calls.as_layout(calls.fixed(argument, nhwc(t), t.data), wanted);
}

/// The Winograd convolution that does this one, if one does.
std::optional<Winograd> winograd_of(const Conv& op, const Bound& b, DType products, int threads) {
    if (op.kernel != 3 || op.stride != 1 || op.pad != 1 || op.bias != none || products != DType::f32) return {};
    const Shape& x = b.values[op.x].shape;
    const Winograd w{x.n, x.h, x.w, x.c, b.values[op.y].shape.c, threads};
    return w.worthwhile() ? std::optional(w) : std::nullopt;
}

/// From how many weights on oneDNN's matrix product is faster than its convolutions, which keep
/// half of their speed: 4 MiB, measured.
constexpr size_t many_weights = 1 << 20;

/// The patches that this convolution is a product of, if that is the faster way, or `anyhow`.
std::optional<Patches> patches_of(const Conv& op, const Bound& b, DType products, int threads, bool anyhow = false) {
    if (op.bias != none || products != DType::f32 || (!anyhow && b.params[op.weight].count() < many_weights)) return {};
    const Shape &x = b.values[op.x].shape, &y = b.values[op.y].shape;
    return Patches{x.n, x.h, x.w, x.c, op.kernel, op.stride, op.pad, y.h, y.w, threads};
}

/// The matrix of patches: x itself, or gathered into a temporary.
Calls::Operand gathered(Calls& calls, int argument, const Tensor& x, const Patches& p) {
    if (p.are_pixels()) return calls.matrix_of(argument, x, x.shape.c);
    const auto to = calls.temporary(argument, matrix(p.rows(), p.columns(), DType::f32));
    with_type(x.dtype, [&]<class E>(E) {
        calls.add(to.offset, [p, from = x.as<E>()](void* patches) { p.gather(from, static_cast<float*>(patches)); });
    });
    return to;
}

template <class E> CONVOY_WIDE void add_rows(const E* from, int64_t rows, int c, float* s) {
    for (int64_t r = 0; r < rows; ++r, from += c) {
#pragma omp simd
        for (int i = 0; i < c; ++i) s[i] += to_float(from[i]);
    }
}

}  // namespace

void CpuBackend::bias_gradient(const Tensor& dy, float* to, const StepId& id, Tape& tape) {
    const int c = dy.shape.c;
    int together = 1;  // rows that are summed as one, so that its channels fill vectors
    while (together < 16 && together * c % 16 != 0) together *= 2;
    const int wide = together * c;
    const Buffer scratch =
        allocate(sizeof(double) * (2 * size_t(wide) + size_t(threads_) * ThreadScratch::doubles(wide)));
    with_type(dy.dtype, [&]<class E>(E) {
        tape.push_back({id, Lane::compute, [=, this, rows = int64_t(dy.shape.pixels()), from = dy.as<E>()] {
                            auto* sums = static_cast<double*>(scratch.get());
                            sum_rows(threads_, rows / together, wide, sums + 2 * wide, sums,
                                     [=](int64_t first, int64_t last, const ThreadScratch& t) {
                                         add_rows(from + first * wide, last - first, wide, t.s);
                                     });
                            const int rest = int(rows % together);
                            for (int i = 0; i < c; ++i) {
                                double sum = 0;
                                for (int k = 0; k < together; ++k) sum += sums[k * c + i];
                                for (int k = 0; k < rest; ++k) sum += to_float(from[(rows - rest + k) * c + i]);
                                to[i] = float(sum);
                            }
                        }});
    });
}

void CpuBackend::forward(const Conv& op, const Bound& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y], &weight = b.params[op.weight];
    Calls calls(engine_, stream_, temporary_);
    if (const auto w = winograd_of(op, b, products_of(x.dtype), threads_)) {
        with_type(x.dtype, [&]<class E>(E) {
            calls.add(calls.reserve(w->workspace_bytes()),
                      [=, w = *w, from = x.as<E>(), by = weight.as<float>(), to = y.as<E>()](void* space) {
                          w.forward(from, by, to, space);
                      });
        });
        return calls.onto(tape, b.step(StepPhase::forward, "conv forward"));
    }
    if (const auto p = patches_of(op, b, products_of(x.dtype), threads_)) {
        const auto target = calls.target(DNNL_ARG_DST, y, matrix(p->rows(), y.shape.c, DType::f32), false);
        calls.multiply(gathered(calls, DNNL_ARG_SRC, x, *p),
                       calls.fixed(DNNL_ARG_WEIGHTS, matrix(p->columns(), y.shape.c, DType::f32, true), weight.data),
                       target);
        calls.deliver(target, y, false);
        return calls.onto(tape, b.step(StepPhase::forward, "conv forward"));
    }
    const Descs d(op, b, products_of(x.dtype));
    const auto pd = forward_desc(engine_, d, b.training);
    const auto target = calls.target(DNNL_ARG_DST, y, d.y, false);
    std::vector<Calls::Operand> operands = {
        read(calls, DNNL_ARG_SRC, x, d.x),
        calls.as_layout(calls.fixed(DNNL_ARG_WEIGHTS, d.weight, weight.data), pd.weights_desc()), target};
    if (op.bias != none) operands.push_back(calls.fixed(DNNL_ARG_BIAS, d.bias, b.params[op.bias].data));
    calls.add(dnnl::convolution_forward(pd), operands, pd.scratchpad_desc());
    calls.deliver(target, y, false);
    calls.onto(tape, b.step(StepPhase::forward, "conv forward"));
}

void CpuBackend::backward(const Conv& op, const Bound& b, Tape& tape) {
    if (b.param_gradients[op.weight].data) weight_gradient(op, b, tape);  // null: frozen
    if (op.bias != none)  // of one channel in, oneDNN takes twice as long for both at once
        bias_gradient(b.value_gradients[op.y], b.param_gradients[op.bias].as<float>(),
                      b.step(StepPhase::bias_gradient, "conv bias gradient"), tape);
    if (b.value_gradients[op.x].data) data_gradient(op, b, tape);
}

void CpuBackend::weight_gradient(const Conv& op, const Bound& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &dy = b.value_gradients[op.y], &dweight = b.param_gradients[op.weight];
    Calls calls(engine_, stream_, temporary_);
    if (const auto w = winograd_of(op, b, products_of(x.dtype), threads_)) {
        with_type(x.dtype, [&]<class E>(E) {
            calls.add(calls.reserve(w->workspace_bytes()),
                      [=, w = *w, seen = x.as<E>(), from = dy.as<E>(), to = dweight.as<float>()](void* space) {
                          w.weight_gradient(seen, from, to, space);
                      });
        });
        return calls.onto(tape, b.step(StepPhase::weight_gradient, "conv weight gradient"));
    }
    if (const auto p = patches_of(op, b, products_of(x.dtype), threads_)) {
        calls.multiply(calls.matrix_of(DNNL_ARG_SRC, dy, dy.shape.c, true), gathered(calls, DNNL_ARG_WEIGHTS, x, *p),
                       calls.fixed(DNNL_ARG_DST, matrix(dy.shape.c, p->columns(), DType::f32), dweight.data));
        return calls.onto(tape, b.step(StepPhase::weight_gradient, "conv weight gradient"));
    }
    const Descs d(op, b, products_of(x.dtype));
    const auto hint = forward_desc(engine_, d, true);
    const dnnl::convolution_backward_weights::primitive_desc pd(engine_, direct, d.x, any_layout(d.weight), d.y,
                                                                d.stride, d.pad, d.pad, hint, Calls::attributes());
    const auto gradient = calls.fixed(DNNL_ARG_DIFF_WEIGHTS, d.weight, dweight.data);
    const bool plain = pd.diff_weights_desc() == d.weight;
    const auto written = plain ? gradient : calls.temporary(DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc());
    calls.add(dnnl::convolution_backward_weights(pd),
              {read(calls, DNNL_ARG_SRC, x, d.x), read(calls, DNNL_ARG_DIFF_DST, dy, d.y), written},
              pd.scratchpad_desc());
    if (!plain) calls.copy(written, gradient);
    calls.onto(tape, b.step(StepPhase::weight_gradient, "conv weight gradient"));
}

void CpuBackend::data_gradient(const Conv& op, const Bound& b, Tape& tape) {
    const Tensor &dy = b.value_gradients[op.y], &dx = b.value_gradients[op.x], &weight = b.params[op.weight];
    const bool add = b.accumulate[op.x];
    Calls calls(engine_, stream_, temporary_);
    if (const auto w = winograd_of(op, b, products_of(dx.dtype), threads_)) {
        with_type(dx.dtype, [&]<class E>(E) {
            calls.add(calls.reserve(w->workspace_bytes()),
                      [=, w = *w, from = dy.as<E>(), by = weight.as<float>(), to = dx.as<E>()](void* space) {
                          w.data_gradient(from, by, to, add, space);
                      });
        });
        return calls.onto(tape, b.step(StepPhase::data_gradient, "conv data gradient"));
    }
    // in the product's own pass over dx
    const bool adds_product = add && dx.dtype == DType::f32 && op.kernel == 1 && op.stride == 1 && op.pad == 0;
    if (const auto p = patches_of(op, b, products_of(dx.dtype), threads_, adds_product)) {
        const auto left = calls.matrix_of(DNNL_ARG_SRC, dy, dy.shape.c);
        const auto right = calls.fixed(DNNL_ARG_WEIGHTS, matrix(dy.shape.c, p->columns(), DType::f32), weight.data);
        const Desc product = matrix(p->rows(), p->columns(), DType::f32);
        if (adds_product) {
            calls.multiply(left, right, calls.fixed(DNNL_ARG_DST, product, dx.data), true);
        } else if (p->are_pixels()) {
            const auto target = calls.target(DNNL_ARG_DST, dx, product, add);
            calls.multiply(left, right, target);
            calls.deliver(target, dx, add);
        } else {
            const auto target = calls.temporary(DNNL_ARG_DST, product);
            calls.multiply(left, right, target);
            with_type(dx.dtype, [&]<class E>(E) {
                calls.add(target.offset, [p = *p, to = dx.as<E>(), add](void* patches) {
                    p.scatter(static_cast<const float*>(patches), to, add);
                });
            });
        }
        return calls.onto(tape, b.step(StepPhase::data_gradient, "conv data gradient"));
    }
    const Descs d(op, b, products_of(dx.dtype));
    const auto hint = forward_desc(engine_, d, true);
    const dnnl::convolution_backward_data::primitive_desc pd(engine_, direct, d.x, d.any_weight(), d.y, d.stride, d.pad,
                                                             d.pad, hint, Calls::attributes());
    const auto target = calls.target(DNNL_ARG_DIFF_SRC, dx, d.x, add);
    calls.add(dnnl::convolution_backward_data(pd),
              {read(calls, DNNL_ARG_DIFF_DST, dy, d.y),
               calls.as_layout(calls.fixed(DNNL_ARG_WEIGHTS, d.weight, weight.data), pd.weights_desc()), target},
              pd.scratchpad_desc());
    calls.deliver(target, dx, add);
    calls.onto(tape, b.step(StepPhase::data_gradient, "conv data gradient"));
}

}  // namespace convoy::cpu
