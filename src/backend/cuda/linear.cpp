// Linear layers as convolutions of one pixel per sample: y = x * weight^T [+ bias] with x [n, in],
// weight [out, in] and y [n, out]. Unless the precision is f32, the GEMM runs in low precision.
// Logits and their gradients are f32 even then.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {
namespace {

CopyShape copy_of(const Tensor& x, int out, Precision precision) {
    const Value value{"", x.shape.h, x.shape.w, x.channels(), x.dtype, x.padding};
    return precision == Precision::f32
               ? weight_copy({out, x.shape.h, x.shape.w, x.shape.c}, x.shape, {1, 1, 1, out}, x.dtype)
               : linear_copy(out, value, x.dtype);
}

}  // namespace

void CudaBackend::forward(const Linear& op, const OpArguments& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y], &w = b.params[op.weight];
    const LaunchId id = b.launch(LaunchPhase::forward, "linear forward");
    const PlanSpec& spec = *algorithm_of(b).gemm.forward;
    const Plan& gemm = plan(spec);
    void* copy = weight(w, copy_of(x, w.shape.n, options_.precision));
    if (y.dtype == x.dtype && y.shape.c == spec.y.c) {
        append(tape, id, gemm, {{Slot::x, x.data}, {Slot::weight, copy}, {Slot::y, y.data}});
        if (op.bias != none) add_bias(tape, b.launch(LaunchPhase::bias, "linear bias"), y, {}, b.params[op.bias], y);
        return;
    }
    const Tensor low{nullptr, spec.y, x.dtype, spec.y.c - w.shape.n};
    const Workspace::Part part = workspace_->part(0, low.bytes());
    append(tape, id, gemm, {{Slot::x, x.data}, {Slot::weight, copy}, {Slot::y, nullptr, part}});
    if (op.bias != none)
        return add_bias(tape, b.launch(LaunchPhase::bias, "linear bias"), low, part, b.params[op.bias], y);
    require(y.dtype == DType::f32 && y.padding == 0, "a linear layer without bias has a dense f32 output");
    append(tape, followed(id, "to f32"), [=, workspace = workspace_, from = low](cudaStream_t s) mutable {
        from.data = workspace->at(part);
        kernels::crop(from, y.shape.n, y.shape.c, y.as<float>(), s);
    });
}

void CudaBackend::backward(const Linear& op, const OpArguments& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &w = b.params[op.weight], &dy = b.value_gradients[op.y],
                 &dx = b.value_gradients[op.x];
    const GemmAlgorithm& algorithm = algorithm_of(b).gemm;
    const CopyShape copy = copy_of(x, w.shape.n, options_.precision);
    Operand gradient{Slot::dy, dy.data};
    if (op.bias != none && b.param_gradients[op.bias].data)
        bias_gradient(tape, b.launch(LaunchPhase::bias_gradient, "linear bias gradient"), dy,
                      b.param_gradients[op.bias]);
    const Shape& stored = algorithm.forward->y;
    if (dy.dtype != x.dtype || dy.shape.c != stored.c) {
        Tensor low{nullptr, stored, x.dtype, stored.c - w.shape.n};
        gradient = {Slot::dy, nullptr, workspace_->part(0, low.bytes())};
        append(tape,
               followed(b.launch(LaunchPhase::gradient, "linear gradient"), std::string("to ") + name_of(x.dtype)),
               [=, workspace = workspace_, part = *gradient.part](cudaStream_t s) mutable {
                   low.data = workspace->at(part);
                   kernels::pad(dy.as<float>(), dy.shape.n, dy.shape.c, low, s);
               });
    }
    const LaunchId of_weight = b.launch(LaunchPhase::weight_gradient, "linear weight gradient");
    if (algorithm.weight_gradient)
        weight_gradient(tape, of_weight, algorithm, gradient, {{Slot::x, x.data}}, b.param_gradients[op.weight], copy);
    if (algorithm.data_gradient)
        data_gradient(tape, b.launch(LaunchPhase::data_gradient, "linear data gradient"), *algorithm.data_gradient,
                      gradient, weight(w, copy), dx, b.accumulate[op.x]);
    if (algorithm.side_by_side) join(tape, of_weight);  // before the next op, as for convolutions
}

}  // namespace convoy::cuda
