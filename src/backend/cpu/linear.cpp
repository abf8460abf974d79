// Linear layers as matrix products on plain row-major matrices: y [n, out] = x [n, in] * weight [out, in]^T + bias.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/primitives.h"

namespace convoy {

void CpuBackend::forward(const Linear& op, const Bound& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y], &weight = b.params[op.weight];
    const int n = x.shape.n, in = weight.shape.c, out = weight.shape.n;
    const Desc dx = matrix(n, in, x.dtype), dw = matrix(in, out, weight.dtype, true), db = matrix(1, out, DType::f32), dy = matrix(n, out, y.dtype);
    const auto make = [&]() -> dnnl::matmul::primitive_desc {
        if (op.bias == none) return {engine_, dx, dw, dy, Calls::attributes()};
        return {engine_, dx, dw, db, dy, Calls::attributes()};
    };
    const dnnl::matmul::primitive_desc pd = make();
    Calls calls(engine_, stream_, temporary_);
    std::vector<Calls::Operand> operands = {calls.fixed(DNNL_ARG_SRC, dx, x.data), calls.fixed(DNNL_ARG_WEIGHTS, dw, weight.data),
                                            calls.fixed(DNNL_ARG_DST, dy, y.data)};
    if (op.bias != none) operands.push_back(calls.fixed(DNNL_ARG_BIAS, db, b.params[op.bias].data));
    calls.add(dnnl::matmul(pd), operands, pd.scratchpad_desc());
    calls.onto(tape, "linear forward " + b.name);
}

void CpuBackend::backward(const Linear& op, const Bound& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &weight = b.params[op.weight], &dy = b.value_gradients[op.y], &dx = b.value_gradients[op.x];
    const int n = x.shape.n, in = weight.shape.c, out = weight.shape.n;
    const auto product = [&](Calls& calls, const Desc& a, void* from_a, const Desc& c, void* from_c, Calls::Operand to) {
        const dnnl::matmul::primitive_desc pd(engine_, a, c, to.memory.get_desc(), Calls::attributes());
        calls.add(dnnl::matmul(pd), {calls.fixed(DNNL_ARG_SRC, a, from_a), calls.fixed(DNNL_ARG_WEIGHTS, c, from_c), to}, pd.scratchpad_desc());
    };

    Calls calls(engine_, stream_, temporary_);
    product(calls, matrix(out, n, dy.dtype, true), dy.data, matrix(n, in, x.dtype), x.data,
            calls.fixed(DNNL_ARG_DST, matrix(out, in, DType::f32), b.param_gradients[op.weight].data));
    if (op.bias != none)
        calls.add([n, out, from = dy.as<float>(), to = b.param_gradients[op.bias].as<float>()] {
            for (int c = 0; c < out; ++c) {
                double sum = 0;
                for (int i = 0; i < n; ++i) sum += from[int64_t(i) * out + c];
                to[c] = float(sum);
            }
        });
    calls.onto(tape, "linear weight gradient " + b.name);

    if (!dx.data) return;
    Calls data(engine_, stream_, temporary_);
    const Desc d = matrix(n, in, dx.dtype);
    const auto target = b.accumulate[op.x] ? data.temporary(DNNL_ARG_DST, d) : data.fixed(DNNL_ARG_DST, d, dx.data);
    product(data, matrix(n, out, dy.dtype), dy.data, matrix(out, in, weight.dtype), weight.data, target);
    if (b.accumulate[op.x]) data.accumulate(target, dx);
    data.onto(tape, "linear data gradient " + b.name);
}

}  // namespace convoy
