// Convolutions by cuDNN plans, and the functions that they share with linear layers. A linear layer
// is a convolution of one pixel.
#include "backend/cuda/cuda_backend.h"
#include "backend/gpu/saved.h"

namespace convoy::cuda {

namespace {

/// The batch norm that writes a convolution's x, if the convolution's plans do a part of it.
struct NormOfX {
    const BatchNorm& op;
    const Tensor& x;
    NormSaved saved;
    NormOfX(const OpArguments& b, int index)
        : op(std::get<BatchNorm>(b.graph.ops[index])), x(b.values[op.x]), saved(b.saved[index], x) {}
};

}  // namespace

std::vector<CudaBackend::Operand> CudaBackend::conv_input(const Conv& op, const OpArguments& b) {
    const GemmAlgorithm& algorithm = algorithm_of(b).gemm;
    if (!algorithm.forward->normalise) return {{Slot::x, b.values[op.x].data}};
    const NormOfX norm(b, algorithm.norm);
    return {{Slot::x, norm.x.data}, {Slot::scale, norm.saved.scale}, {Slot::bias, norm.saved.bias}};
}

std::vector<CudaBackend::Operand> CudaBackend::norm_sums(const OpArguments& b) {
    const GemmAlgorithm& algorithm = algorithm_of(b).gemm;
    if (!algorithm.data_gradient->statistics) return {};
    const NormOfX norm(b, algorithm.norm);
    const size_t vector = size_t(norm.x.shape.c) * sizeof(float);
    // Factors that cuDNN derives from the sums. They are not used: our kernels compute their own.
    const Workspace::Part dy = workspace_->part(0, vector), x = workspace_->part(dy.end(), vector),
                          offset = workspace_->part(x.end(), vector);
    return {{Slot::x, norm.x.data},
            {Slot::scale, b.params[norm.op.scale].data},
            {Slot::bias, b.params[norm.op.bias].data},
            {Slot::mean, norm.saved.mean},
            {Slot::invstd, norm.saved.invstd},
            {Slot::dscale, b.param_gradients[norm.op.scale].data},
            {Slot::dbias, b.param_gradients[norm.op.bias].data},
            {Slot::dy_factor, nullptr, dy},
            {Slot::x_factor, nullptr, x},
            {Slot::offset, nullptr, offset}};
}

void CudaBackend::forward(const Conv& op, const OpArguments& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y], &w = b.params[op.weight];
    const PlanSpec& spec = *algorithm_of(b).gemm.forward;
    std::vector<Operand> operands = conv_input(op, b);
    operands.push_back({Slot::weight, weight(w, weight_copy(w.shape, x.shape, y.shape, x.dtype))});
    operands.push_back({Slot::y, y.data});
    if (spec.statistics) {
        const ConvSaved sums(b.own_saved(), y);
        operands.insert(operands.end(), {{Slot::sum, sums.sum}, {Slot::squares, sums.squares}});
    }
    append(tape, b.launch(LaunchPhase::forward, "conv forward"), plan(spec), operands);
    if (op.bias != none) add_bias(tape, b.launch(LaunchPhase::bias, "conv bias"), y, {}, b.params[op.bias], y);
}

void CudaBackend::backward(const Conv& op, const OpArguments& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &w = b.params[op.weight], &dy = b.value_gradients[op.y],
                 &dx = b.value_gradients[op.x];
    const CopyShape copy = weight_copy(w.shape, x.shape, dy.shape, x.dtype);
    const GemmAlgorithm& algorithm = algorithm_of(b).gemm;
    const Operand gradient{Slot::dy, dy.data};
    const LaunchId of_weight = b.launch(LaunchPhase::weight_gradient, "conv weight gradient");
    if (algorithm.weight_gradient)
        weight_gradient(tape, of_weight, algorithm, gradient, conv_input(op, b), b.param_gradients[op.weight], copy);
    if (op.bias != none && b.param_gradients[op.bias].data)
        bias_gradient(tape, b.launch(LaunchPhase::bias_gradient, "conv bias gradient"), dy, b.param_gradients[op.bias]);
    if (algorithm.data_gradient)
        data_gradient(tape, b.launch(LaunchPhase::data_gradient, "conv data gradient"), *algorithm.data_gradient,
                      gradient, weight(w, copy), dx, b.accumulate[op.x], norm_sums(b));
    // Join before the next op, which may overwrite dy, x or the norm's vectors, because lifetimes
    // of memory are counted in ops. The bucket's all-reduce also starts after an op.
    if (algorithm.side_by_side) join(tape, of_weight);
}

void* CudaBackend::weight(const Tensor& master, const CopyShape& shape) {
    return shape.is_master() ? master.data : copies_->of(*this, master, shape);
}

void CudaBackend::weight_gradient(Tape& tape, const LaunchId& id, const GemmAlgorithm& algorithm, const Operand& dy,
                                  std::vector<Operand> operands, const Tensor& gradient, const CopyShape& shape) {
    const Branch branch = algorithm.side_by_side ? Branch::side : Branch::main;
    if (algorithm.side_by_side) fork(tape, id);
    const Plan& chosen = plan(*algorithm.weight_gradient);
    operands.push_back(dy);
    if (shape.is_master()) {
        operands.push_back({Slot::dweight, gradient.data});
        return append(tape, id, chosen, operands, branch);
    }
    LowGradients& low = low_gradients_;
    low.parts.push_back(gradient_workspace_->part(low.parts.empty() ? 0 : low.parts.back().end(), shape.bytes()));
    const Shape stored{int(shape.stored_rows), 1, 1, shape.stored};
    low.copies.push_back({{nullptr, stored, shape.type, shape.stored - shape.channels},
                          shape.rows,
                          shape.channels,
                          gradient.as<float>()});
    operands.push_back({Slot::dweight, nullptr, low.parts.back(), gradient_workspace_.get()});
    append(tape, id, chosen, operands, branch);
}

void CudaBackend::data_gradient(Tape& tape, const LaunchId& id, const PlanSpec& spec, const Operand& dy, void* w,
                                const Tensor& dx, bool accumulate, const std::vector<Operand>& more) {
    std::vector<Operand> operands = {dy, {Slot::weight, w}};
    operands.insert(operands.end(), more.begin(), more.end());
    if (spec.add) operands.push_back({Slot::residual, dx.data});
    if (!accumulate || spec.add) {
        operands.push_back({Slot::dx, dx.data});
        return append(tape, id, plan(spec), operands);
    }
    const Workspace::Part part = workspace_->part(dy.part ? dy.part->end() : 0, dx.bytes());
    operands.push_back({Slot::dx, nullptr, part});
    append(tape, id, plan(spec), operands);
    append(tape, followed(id, "addition"), [=, workspace = workspace_](cudaStream_t s) {
        Tensor from = dx;
        from.data = workspace->at(part);
        kernels::add_backward(from, dx, true, s);
    });
}

void CudaBackend::add_bias(Tape& tape, const LaunchId& id, const Tensor& from, std::optional<Workspace::Part> from_part,
                           const Tensor& bias, const Tensor& to) {
    append(tape, id, [=, workspace = workspace_, b = bias.as<float>()](cudaStream_t s) {
        Tensor source = from;
        if (from_part) source.data = workspace->at(*from_part);
        kernels::add_bias(source, b, to, s);
    });
}

void CudaBackend::bias_gradient(Tape& tape, const LaunchId& id, const Tensor& dy, const Tensor& gradient) {
    const Workspace::Part part = workspace_->part(0, kernels::bias_gradient_workspace(dy.shape));
    append(tape, id, [=, workspace = workspace_, to = gradient.as<float>()](cudaStream_t s) {
        kernels::bias_gradient(dy, dy.channels(), to, workspace->at(part), s);
    });
}

}  // namespace convoy::cuda
