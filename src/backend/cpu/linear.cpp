// Linear layers as GEMMs on plain row-major matrices. They compute in f32 for every type of values.
//   y [n, out] = x [n, in] * weight [out, in]^T + bias
// They are small, so bf16 values are converted on the way in and out.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/primitives.h"

namespace convoy::cpu {
void CpuBackend::forward(const Linear& op, const OpArguments& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y], &weight = b.params[op.weight];
    const int n = x.shape.n, in = weight.shape.c, out = weight.shape.n;
    constexpr DType f32 = DType::f32;
    const Desc dx = matrix(n, in, f32), dw = matrix(in, out, f32, true), db = matrix(1, out, f32),
               dy = matrix(n, out, f32);
    const auto make = [&]() -> dnnl::matmul::primitive_desc {
        if (op.bias == none) return {engine_, dx, dw, dy, Calls::attributes()};
        return {engine_, dx, dw, db, dy, Calls::attributes()};
    };
    const dnnl::matmul::primitive_desc pd = make();
    Calls calls(engine_, stream_, temporary_);
    const auto target = calls.target(DNNL_ARG_DST, y, dy, false);
    std::vector<Calls::Operand> operands = {calls.matrix_of(DNNL_ARG_SRC, x, in),
                                            calls.fixed(DNNL_ARG_WEIGHTS, dw, weight.data), target};
    if (op.bias != none) operands.push_back(calls.fixed(DNNL_ARG_BIAS, db, b.params[op.bias].data));
    calls.add(dnnl::matmul(pd), operands, pd.scratchpad_desc());
    calls.deliver(target, y, false);
    calls.onto(tape, b.launch(LaunchPhase::forward, "linear forward"));
}

void CpuBackend::backward(const Linear& op, const OpArguments& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &weight = b.params[op.weight], &dy = b.value_gradients[op.y],
                 &dx = b.value_gradients[op.x];
    const int n = x.shape.n, in = weight.shape.c, out = weight.shape.n;
    if (void* const dw = b.param_gradients[op.weight].data) {  // null: frozen
        Calls calls(engine_, stream_, temporary_);
        calls.multiply(calls.matrix_of(DNNL_ARG_SRC, dy, out, DType::f32, true),
                       calls.matrix_of(DNNL_ARG_WEIGHTS, x, in),
                       calls.fixed(DNNL_ARG_DST, matrix(out, in, DType::f32), dw));
        calls.onto(tape, b.launch(LaunchPhase::weight_gradient, "linear weight gradient"));
    }
    if (op.bias != none && b.param_gradients[op.bias].data)
        bias_gradient(dy, b.param_gradients[op.bias].as<float>(),
                      b.launch(LaunchPhase::bias_gradient, "linear bias gradient"), tape);

    if (!dx.data) return;
    Calls data(engine_, stream_, temporary_);
    const auto target = data.target(DNNL_ARG_DST, dx, matrix(n, in, DType::f32), b.accumulate[op.x]);
    data.multiply(data.matrix_of(DNNL_ARG_SRC, dy, out),
                  data.fixed(DNNL_ARG_WEIGHTS, matrix(out, in, DType::f32), weight.data), target);
    data.deliver(target, dx, b.accumulate[op.x]);
    data.onto(tape, b.launch(LaunchPhase::data_gradient, "linear data gradient"));
}

}  // namespace convoy::cpu
