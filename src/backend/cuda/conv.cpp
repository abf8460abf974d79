// Convolution by cuDNN plans; what its three directions share with linear layers, which are
// convolutions of one pixel.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

void CudaBackend::forward(const Conv& op, const Bound& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y], &w = b.params[op.weight];
    void* copy = weight(w, weight_copy(w.shape, x.shape, y.shape, x.dtype));
    const PlanSpec spec = conv_spec(PlanSpec::conv, op, x.shape, y.shape, x.dtype, options_.precision);
    const std::vector<Operand> operands = {{Slot::x, x.data}, {Slot::weight, copy}, {Slot::y, y.data}};
    const StepId id = b.step(StepPhase::forward, "conv forward");
    if (op.bias == none) conv_steps_[op.y] = {tape.size(), id, op, spec, operands};
    step(tape, id, plan(spec), operands);
    if (op.bias != none) add_bias(tape, b.step(StepPhase::bias, "conv bias"), y, {}, b.params[op.bias], y);
}

void CudaBackend::backward(const Conv& op, const Bound& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &w = b.params[op.weight], &dy = b.value_gradients[op.y],
                 &dx = b.value_gradients[op.x];
    const CopyShape copy = weight_copy(w.shape, x.shape, dy.shape, x.dtype);
    const auto spec = [&](PlanSpec::Kind kind) {
        return conv_spec(kind, op, x.shape, dy.shape, x.dtype, options_.precision);
    };
    const Operand gradient{Slot::dy, dy.data};
    if (b.param_gradients[op.weight].data) {  // else it is frozen
        const auto norm = norms_in_convs_.find(op.x);
        PlanSpec of_weight = spec(PlanSpec::conv_weight_gradient);
        of_weight.normalise = norm != norms_in_convs_.end();
        weight_gradient(tape, b.step(StepPhase::weight_gradient, "conv weight gradient"), of_weight, gradient,
                        of_weight.normalise ? norm->second.operands() : std::vector<Operand>{{Slot::x, x.data}},
                        b.param_gradients[op.weight], copy);
    }
    if (op.bias != none)
        bias_gradient(tape, b.step(StepPhase::bias_gradient, "conv bias gradient"), dy, b.param_gradients[op.bias]);
    if (!dx.data) return;
    const StepId id = b.step(StepPhase::data_gradient, "conv data gradient");
    void* weights = weight(w, copy);
    data_gradient(tape, id, spec(PlanSpec::conv_data_gradient), gradient, weights, dx, b.accumulate[op.x]);
    if (!b.accumulate[op.x])
        data_gradients_[op.x] = {tape.size() - 1,
                                 id,
                                 op,
                                 spec(PlanSpec::conv_data_gradient),
                                 {gradient, {Slot::weight, weights}, {Slot::dx, dx.data}}};
}

void* CudaBackend::weight(const Tensor& master, const CopyShape& shape) {
    return shape.is_master() ? master.data : copies_.of(*this, master, shape);
}

void CudaBackend::weight_gradient(Tape& tape, const StepId& id, const PlanSpec& spec, const Operand& dy,
                                  std::vector<Operand> operands, const Tensor& gradient, const CopyShape& shape) {
    const Plan& chosen = plan(spec);
    operands.push_back(dy);
    if (shape.is_master()) {
        operands.push_back({Slot::dweight, gradient.data});
        return step(tape, id, chosen, operands);
    }
    const Workspace::Part part = workspace_->part(dy.part ? dy.part->end() : 0, shape.bytes());
    operands.push_back({Slot::dweight, nullptr, part});
    step(tape, id, chosen, operands);
    Tensor from{nullptr, {int(shape.stored_rows), 1, 1, shape.stored}, shape.type, shape.stored - shape.channels};
    step(tape, followed(id, "to f32"),
         [=, workspace = workspace_, rows = shape.rows, channels = shape.channels,
          to = gradient.as<float>()](cudaStream_t s) mutable {
             from.data = workspace->at(part);
             kernels::crop(from, rows, channels, to, s);
         });
}

void CudaBackend::data_gradient(Tape& tape, const StepId& id, PlanSpec spec, const Operand& dy, void* w,
                                const Tensor& dx, bool accumulate) {
    const Plan& plain = plan(spec);
    if (!accumulate) return step(tape, id, plain, {dy, {Slot::weight, w}, {Slot::dx, dx.data}});
    const Workspace::Part part = workspace_->part(dy.part ? dy.part->end() : 0, dx.bytes());
    const auto add = [=, workspace = workspace_](cudaStream_t s) {
        Tensor from = dx;
        from.data = workspace->at(part);
        kernels::add_backward(from, dx, true, s);
    };
    spec.add = true;
    const Plan* fused = plans_.find(spec);
    std::optional<DeviceMemory> elsewhere;  // dx may hold what is to be added to
    const auto trial = [&] {
        if (!elsewhere) elsewhere.emplace(dx.bytes());
        const Tensor there{elsewhere->get(), dx.shape, dx.dtype, dx.padding};
        kernels::add_backward(there, there, true, compute_.get());
    };
    if (fused && fused->microseconds <= plain.microseconds + plans_.measured("addition " + spec.key(), trial))
        return step(tape, id, *fused, {dy, {Slot::weight, w}, {Slot::residual, dx.data}, {Slot::dx, dx.data}});
    if (!fused)
        note("cuDNN has no engine for '" + spec.family() + "' in some sizes: an addition follows the plain one");
    step(tape, id, plain, {dy, {Slot::weight, w}, {Slot::dx, nullptr, part}});
    step(tape, followed(id, "addition"), add);
}

void CudaBackend::add_bias(Tape& tape, const StepId& id, const Tensor& from, std::optional<Workspace::Part> from_part,
                           const Tensor& bias, const Tensor& to) {
    step(tape, id, [=, workspace = workspace_, b = bias.as<float>()](cudaStream_t s) {
        Tensor source = from;
        if (from_part) source.data = workspace->at(*from_part);
        kernels::add_bias(source, b, to, s);
    });
}

void CudaBackend::bias_gradient(Tape& tape, const StepId& id, const Tensor& dy, const Tensor& gradient) {
    const Workspace::Part part = workspace_->part(0, kernels::bias_gradient_workspace(dy.shape));
    step(tape, id, [=, workspace = workspace_, to = gradient.as<float>()](cudaStream_t s) {
        kernels::bias_gradient(dy, dy.channels(), to, workspace->at(part), s);
    });
}

}  // namespace convoy::cuda
