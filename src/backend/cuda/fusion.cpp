// Fuses batch norm into adjacent convolutions, if that measures faster:
// (a) the producer also writes sum(y) and sum(y^2);
// (b) f16: the consumer and its weight gradient normalise their input as they load it;
// (c) f16: the consumer's data gradient applies the ReLU mask and writes dscale and dbias.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

bool CudaBackend::prefer(float fused, float plain) const {
    return options_.norm_by == NormBy::convolutions || (fused < untimed && fused <= plain);
}

const Plan* CudaBackend::fused_plan(const PlanSpec& spec, const char* instead) {
    if (options_.norm_by == NormBy::plans || options_.norm_by == NormBy::kernels) return nullptr;
    const Plan* found = plans_.find(spec);
    if (!found) note("cuDNN has no engine for '" + spec.family() + "' in some sizes: " + instead);
    return found;
}

const CudaBackend::ConvStep* CudaBackend::conv_step(const std::map<ValueId, ConvStep>& steps, ValueId v,
                                                    const Tensor& output, const Tape& tape) {
    const auto found = steps.find(v);
    if (found == steps.end()) return nullptr;
    const ConvStep& s = found->second;
    // else it is of another tape
    return s.at < tape.size() && tape[s.at].id.op == s.id.op && tape[s.at].id.phase == s.id.phase &&
                   s.operands.back().data == output.data
               ? &s
               : nullptr;
}

void CudaBackend::replace(Tape& tape, const ConvStep& conv, const Plan& plan, std::vector<Operand> more,
                          const void* instead_of) {
    std::vector<Operand> operands = conv.operands;
    std::erase_if(operands, [&](const Operand& o) { return instead_of && o.data == instead_of; });
    operands.insert(operands.end(), more.begin(), more.end());
    Tape one;
    step(one, conv.id, plan, operands);
    tape[conv.at] = std::move(one.front());
}

bool CudaBackend::forward_by_conv_sums(const BatchNorm& op, const Bound& b, Tape& tape) {
    const kernels::BatchNormArgs args = args_of(op, b);
    const ConvStep* conv =
        sums_by_conv(op, args.x.dtype) && args.x.shape.n > 0 ? conv_step(conv_steps_, op.x, args.x, tape) : nullptr;
    if (!conv) return false;
    PlanSpec spec = conv->spec;
    spec.statistics = true;
    const Plan* fused = fused_plan(spec, "the batch norm sums by itself");
    if (!fused) return false;

    SummedNorm norm{tape.size(), args, allocate(2 * size_t(args.x.shape.c) * sizeof(float))};
    kernels::BatchNormArgs trial = args;  // with scratch in place of running statistics
    trial.running_mean = norm.sum();
    trial.running_var = norm.squares();
    norm.normalise = plans_.measured("normalise " + norm_key(PlanSpec::norm, op, b), [&] {
        kernels::batch_norm_forward(trial, norm.sum(), norm.squares(), compute_.get());
    });
    if (!prefer(fused->microseconds + norm.normalise,
                plan(conv->spec).microseconds + norm_forward(op, b, norm.sum()).microseconds))
        return false;
    const std::vector<Operand> sums = {{Slot::sum, norm.sum()}, {Slot::squares, norm.squares()}};
    if (!fuse_norm_into_input(*conv, *fused, sums, b, tape)) replace(tape, *conv, *fused, sums);
    step(tape, b.step(StepPhase::forward, "batch norm forward"),
         [args, norm](cudaStream_t s) { kernels::batch_norm_forward(args, norm.sum(), norm.squares(), s); });
    if (norm_in_conv(op, args.x.dtype) && b.readers[op.y] == 1) summed_norms_.insert_or_assign(op.y, norm);
    return true;
}

bool CudaBackend::fuse_norm_into_input(const ConvStep& conv, const Plan& plain, const std::vector<Operand>& sums,
                                       const Bound& b, Tape& tape) {
    const auto found = summed_norms_.find(conv.op.x);
    if (found == summed_norms_.end() || !b.param_gradients[conv.op.weight].data) return false;
    const SummedNorm& norm = found->second;
    const Tensor x = norm.args.x, y = norm.args.y;
    if (y.data != b.values[conv.op.x].data) return false;  // of another tape
    PlanSpec forward = conv.spec, gradient = conv_spec(PlanSpec::conv_weight_gradient, conv.op, x.shape, conv.spec.y,
                                                       x.dtype, options_.precision);
    const float apart = plain.microseconds + plan(gradient).microseconds + norm.normalise;
    forward.statistics = forward.normalise = gradient.normalise = true;
    constexpr const char* instead = "the batch norm writes its output";
    const Plan *fused = fused_plan(forward, instead), *fused_gradient = fused_plan(gradient, instead);
    if (!fused || !fused_gradient) return false;

    const size_t vector = size_t(x.shape.c) * size_of(x.dtype);
    const NormInConv reader{x.data, allocate(vector), allocate(vector)};
    kernels::BatchNormArgs trial = norm.args;
    trial.running_mean = norm.sum();
    trial.running_var = norm.squares();
    const float statistics = plans_.measured("statistics " + forward.key(), [&] {
        kernels::batch_norm_statistics(trial, norm.sum(), norm.squares(), reader.scale.get(), reader.bias.get(),
                                       compute_.get());
    });
    if (!prefer(fused->microseconds + fused_gradient->microseconds + statistics, apart)) return false;

    Tape one;
    step(one, tape[norm.at].id, [norm, reader](cudaStream_t s) {
        kernels::batch_norm_statistics(norm.args, norm.sum(), norm.squares(), reader.scale.get(), reader.bias.get(), s);
    });
    tape[norm.at] = std::move(one.front());
    std::vector<Operand> operands = reader.operands();
    operands.insert(operands.end(), sums.begin(), sums.end());
    replace(tape, conv, *fused, operands, y.data);
    norms_in_convs_.insert_or_assign(conv.op.x, reader);
    return true;
}

bool CudaBackend::backward_by_conv_sums(const BatchNorm& op, const Bound& b, const kernels::BatchNormGradients& g,
                                        Tape& tape) {
    if (!norm_in_conv(op, g.dy.dtype) || b.readers[op.y] != 1 || !g.dscale || !g.dx.data) return false;
    const ConvStep* conv = conv_step(data_gradients_, op.y, g.dy, tape);
    if (!conv) return false;
    PlanSpec spec = conv->spec;
    spec.statistics = true;
    const Plan* fused = fused_plan(spec, "kernels/batchnorm_gradient sums");
    if (!fused) return false;

    const kernels::BatchNormArgs args = args_of(op, b);
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape));
    // what cuDNN makes of the sums; the kernels make it themselves
    const Buffer factors = allocate(3 * size_t(args.x.shape.c) * sizeof(float));
    const auto rest = [=, workspace = workspace_](cudaStream_t s) {
        (void)factors;  // lives as long as the step
        kernels::batch_norm_backward_of_sums(args, g, workspace->at(part), s);
    };
    const float applied =
        plans_.measured("rest of " + norm_key(PlanSpec::norm_gradient, op, b), [&] { rest(compute_.get()); });
    if (!prefer(fused->microseconds + applied, plan(conv->spec).microseconds + norm_backward(op, b, g).microseconds))
        return false;

    auto* factor = static_cast<float*>(factors.get());
    replace(tape, *conv, *fused,
            {{Slot::x, args.x.data},
             {Slot::scale, b.params[op.scale].data},
             {Slot::bias, b.params[op.bias].data},
             {Slot::mean, args.mean},
             {Slot::invstd, args.invstd},
             {Slot::dscale, g.dscale},
             {Slot::dbias, g.dbias},
             {Slot::dy_factor, factor},
             {Slot::x_factor, factor + args.x.shape.c},
             {Slot::offset, factor + 2 * args.x.shape.c}});
    step(tape, b.step(StepPhase::gradient, "batch norm gradient"), rest);
    return true;
}

}  // namespace convoy::cuda
