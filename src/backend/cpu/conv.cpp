// Convolution on plain NHWC activations; only the weights are reordered, once a direction and step.
#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/primitives.h"
#include "backend/cpu/rows.h"
#include "backend/cpu/winograd.h"

namespace convoy {
namespace {

using Dims = dnnl::memory::dims;
constexpr auto direct = dnnl::algorithm::convolution_direct;

struct Descs {
    Desc x, weight, bias, y;
    Dims stride, pad;
    Descs(const Conv& op, const Bound& b)
        : x(nhwc(b.values[op.x])),
          weight(ohwi(b.params[op.weight])),
          y(nhwc(b.values[op.y])),
          stride{op.stride, op.stride},
          pad{op.pad, op.pad} {
        if (op.bias != none) bias = Desc({b.params[op.bias].shape.c}, dnnl_type(DType::f32), dnnl::memory::format_tag::x);
    }
};

dnnl::convolution_forward::primitive_desc forward_desc(const dnnl::engine& engine, const Descs& d, bool training) {
    const auto prop = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    if (d.bias) return {engine, prop, direct, d.x, any_layout(d.weight), d.bias, d.y, d.stride, d.pad, d.pad, Calls::attributes()};
    return {engine, prop, direct, d.x, any_layout(d.weight), d.y, d.stride, d.pad, d.pad, Calls::attributes()};
}

std::optional<cpu::Winograd> winograd_of(const Conv& op, const Bound& b, int threads) {
    if (op.kernel != 3 || op.stride != 1 || op.pad != 1 || op.bias != none) return {};
    const Shape& x = b.values[op.x].shape;
    const cpu::Winograd w{x.n, x.h, x.w, x.c, b.values[op.y].shape.c, threads};
    return w.worthwhile() ? std::optional(w) : std::nullopt;
}

}  // namespace

void CpuBackend::bias_gradient(const Tensor& dy, float* to, const std::string& name, Tape& tape) {
    const int c = dy.shape.c;
    const Buffer scratch = allocate(sizeof(double) * (2 * size_t(c) + size_t(threads_) * ThreadScratch::doubles(c)));
    tape.push_back({name, Lane::compute, [=, this, rows = int64_t(dy.shape.pixels()), from = dy.as<float>()] {
                        auto* sums = static_cast<double*>(scratch.get());
                        sum_rows(threads_, rows, c, sums + 2 * c, sums, [=](int64_t r, const ThreadScratch& t) {
                            const float* row = from + r * c;
#pragma omp simd
                            for (int i = 0; i < c; ++i) t.s[i] += row[i];
                        });
                        std::copy_n(sums, c, to);
                    }});
}

void CpuBackend::forward(const Conv& op, const Bound& b, Tape& tape) {
    if (const auto w = winograd_of(op, b, threads_)) {
        Calls calls(engine_, stream_, temporary_);
        calls.add(calls.reserve(w->workspace_bytes()),
                  [w = *w, x = b.values[op.x].as<float>(), weight = b.params[op.weight].as<float>(), y = b.values[op.y].as<float>()](void* space) {
                      w.forward(x, weight, y, space);
                  });
        return calls.onto(tape, "conv forward " + b.name);
    }
    const Descs d(op, b);
    const auto pd = forward_desc(engine_, d, b.training);
    Calls calls(engine_, stream_, temporary_);
    std::vector<Calls::Operand> operands = {
        calls.fixed(DNNL_ARG_SRC, d.x, b.values[op.x].data),
        calls.as_layout(calls.fixed(DNNL_ARG_WEIGHTS, d.weight, b.params[op.weight].data), pd.weights_desc()),
        calls.fixed(DNNL_ARG_DST, d.y, b.values[op.y].data)};
    if (op.bias != none) operands.push_back(calls.fixed(DNNL_ARG_BIAS, d.bias, b.params[op.bias].data));
    calls.add(dnnl::convolution_forward(pd), operands, pd.scratchpad_desc());
    calls.onto(tape, "conv forward " + b.name);
}

void CpuBackend::backward(const Conv& op, const Bound& b, Tape& tape) {
    const Tensor& dy = b.value_gradients[op.y];
    const Tensor& dx = b.value_gradients[op.x];
    if (const auto w = winograd_of(op, b, threads_); w && b.param_gradients[op.weight].data) {
        Calls calls(engine_, stream_, temporary_);
        calls.add(calls.reserve(w->workspace_bytes()),
                  [w = *w, x = b.values[op.x].as<float>(), from = dy.as<float>(), to = b.param_gradients[op.weight].as<float>()](void* space) {
                      w.weight_gradient(x, from, to, space);
                  });
        calls.onto(tape, "conv weight gradient " + b.name);
        if (!dx.data) return;
        Calls data(engine_, stream_, temporary_);
        data.add(data.reserve(w->workspace_bytes()), [w = *w, from = dy.as<float>(), weight = b.params[op.weight].as<float>(), to = dx.as<float>(),
                                                      add = bool(b.accumulate[op.x])](void* space) { w.data_gradient(from, weight, to, add, space); });
        return data.onto(tape, "conv data gradient " + b.name);
    }
    const Descs d(op, b);
    const auto hint = forward_desc(engine_, d, true);

    if (!b.param_gradients[op.weight].data) {  // frozen
        if (op.bias != none) bias_gradient(dy, b.param_gradients[op.bias].as<float>(), "conv bias gradient " + b.name, tape);
    } else {
        Calls weights(engine_, stream_, temporary_);
        const auto make_weights = [&]() -> dnnl::convolution_backward_weights::primitive_desc {
            const Desc dw = any_layout(d.weight);
            if (d.bias) return {engine_, direct, d.x, dw, d.bias, d.y, d.stride, d.pad, d.pad, hint, Calls::attributes()};
            return {engine_, direct, d.x, dw, d.y, d.stride, d.pad, d.pad, hint, Calls::attributes()};
        };
        const auto pw = make_weights();
        const auto gradient = weights.fixed(DNNL_ARG_DIFF_WEIGHTS, d.weight, b.param_gradients[op.weight].data);
        const bool plain = pw.diff_weights_desc() == d.weight;
        const auto written = plain ? gradient : weights.temporary(DNNL_ARG_DIFF_WEIGHTS, pw.diff_weights_desc());
        std::vector<Calls::Operand> operands = {weights.fixed(DNNL_ARG_SRC, d.x, b.values[op.x].data),
                                                weights.fixed(DNNL_ARG_DIFF_DST, d.y, dy.data), written};
        if (op.bias != none) operands.push_back(weights.fixed(DNNL_ARG_DIFF_BIAS, d.bias, b.param_gradients[op.bias].data));
        weights.add(dnnl::convolution_backward_weights(pw), operands, pw.scratchpad_desc());
        if (!plain) weights.copy(written, gradient);
        weights.onto(tape, "conv weight gradient " + b.name);
    }

    if (!dx.data) return;
    Calls data(engine_, stream_, temporary_);
    const dnnl::convolution_backward_data::primitive_desc px(engine_, direct, d.x, any_layout(d.weight), d.y, d.stride, d.pad, d.pad, hint,
                                                             Calls::attributes());
    const auto target = b.accumulate[op.x] ? data.temporary(DNNL_ARG_DIFF_SRC, d.x) : data.fixed(DNNL_ARG_DIFF_SRC, d.x, dx.data);
    data.add(dnnl::convolution_backward_data(px),
             {data.fixed(DNNL_ARG_DIFF_DST, d.y, dy.data),
              data.as_layout(data.fixed(DNNL_ARG_WEIGHTS, d.weight, b.params[op.weight].data), px.weights_desc()), target},
             px.scratchpad_desc());
    if (b.accumulate[op.x]) data.accumulate(target, dx);
    data.onto(tape, "conv data gradient " + b.name);
}

}  // namespace convoy
