// Batch norm in the fastest of three measured ways: cuDNN's plans (bf16, f16), our kernels, or
// fused into neighbouring convolutions (fusion.cpp). Only our kernels do exact f32, GELU, frozen
// scales, narrower residuals, accumulated gradients and statistics over all ranks.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {
namespace {

// A parameter's slot in the arena is padded with zeros to a multiple of the channels stored: a
// padded channel has scale 0 and bias 0, so cuDNN may treat it as a channel, and zero stays zero.
static_assert(stats_elements % tensor_core_multiple == 0);

/// The gradient of a residual, if cuDNN computes all others.
void residual_gradient(Activation act, const Tensor& y, const Tensor& dy, const Tensor& to, cudaStream_t s) {
    if (act == Activation::relu)
        kernels::relu_backward(y, dy, to, false, s);
    else
        kernels::add_backward(dy, to, false, s);
}

}  // namespace

kernels::BatchNormArgs CudaBackend::args_of(const BatchNorm& op, const Bound& b) {
    kernels::BatchNormArgs a;
    a.x = b.values[op.x];
    a.y = b.values[op.y];
    a.channels = a.x.channels();
    if (op.residual != none) {
        a.residual = b.values[op.residual];
        a.residual_channels = a.residual.channels();
    }
    a.act = op.act == Activation::relu   ? kernels::Act::relu
            : op.act == Activation::gelu ? kernels::Act::gelu
                                         : kernels::Act::identity;
    a.scale = b.params[op.scale].as<float>();
    a.bias = b.params[op.bias].as<float>();
    a.mean = static_cast<float*>(b.saved);
    a.invstd = a.mean ? a.mean + a.x.shape.c : nullptr;
    a.running_mean = b.params[op.mean].as<float>();
    a.running_var = b.params[op.var].as<float>();
    a.epsilon = op.epsilon;
    a.momentum = op.momentum;
    return a;
}

void CudaBackend::forward(const BatchNorm& op, const Bound& b, Tape& tape) {
    const kernels::BatchNormArgs args = args_of(op, b);
    const bool empty = args.x.shape.n == 0;
    if (!b.training) {
        if (!empty)
            step(tape, b.step(StepPhase::forward, "batch norm"),
                 [args](cudaStream_t s) { kernels::batch_norm_inference(args, s); });
        return;
    }
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape));
    StepId id = b.step(StepPhase::forward, "batch norm forward");
    if (options_.sync_bn && sums_) {
        const int count = 2 * args.channels + 1;
        const Workspace::Part sums = workspace_->part(part.end(), size_t(count) * sizeof(double));
        step(tape, id, [=, this](cudaStream_t s) {
            auto* totals = static_cast<double*>(workspace_->at(sums));
            kernels::batch_norm_sums(args, totals, workspace_->at(part), s);
            sums_->sum_now(totals, count);
            kernels::batch_norm_normalise(args, totals, s);
        });
    } else if (!forward_by_conv_sums(op, b, tape) && !forward_by_plan(op, b, tape)) {
        kernels::BatchNormArgs with_pool = args;
        if (last_pool_.steps > 0 && last_pool_.steps == tape.size() && last_pool_.of.x.data == args.x.data) {
            with_pool.image = last_pool_.of.image;
            with_pool.pool = last_pool_.of.pool;
            with_pool.index = last_pool_.of.index;
            tape.pop_back();
            // Only the first kernel reads the pool's input; y may take its memory afterwards.
            id = fused_with(id, "pool", last_pool_.op);
            last_pool_ = {};
        }
        step(tape, id, [=, workspace = workspace_](cudaStream_t s) {
            kernels::batch_norm_forward(with_pool, workspace->at(part), s);
        });
    }
}

const Plan* CudaBackend::norm_plan(const BatchNorm& op, const Bound& b, PlanSpec::Kind kind) {
    const Tensor& x = b.values[op.x];
    if (options_.norm_by == NormBy::kernels ||
        !norm_by_cudnn(op, x, op.residual == none ? nullptr : &b.values[op.residual], options_.precision))
        return nullptr;
    const PlanSpec spec = norm_spec(kind, op, x.shape, x.dtype);
    const Plan* found = plans_.find(spec);
    if (!found) note("cuDNN has no engine for '" + spec.family() + "' in some sizes: kernels/batchnorm runs");
    return found;
}

std::string CudaBackend::norm_key(PlanSpec::Kind kind, const BatchNorm& op, const Bound& b) {
    const Tensor& x = b.values[op.x];
    return norm_spec(kind, op, x.shape, x.dtype).key() + " act" + std::to_string(int(op.act)) +
           (op.residual == none ? ""
                                : " residual" + std::to_string(b.values[op.residual].channels()) +
                                      (b.accumulate[op.residual] ? "+" : "")) +
           (b.accumulate[op.x] ? " x+" : "");
}

CudaBackend::NormWay CudaBackend::norm_way(const Plan* found, float extra, const std::string& key,
                                           const std::function<void()>& kernels) {
    if (found && options_.norm_by == NormBy::plans) return {found, found->microseconds + extra};
    const float t = plans_.measured("kernels for " + key, kernels);
    return found && found->microseconds + extra <= t ? NormWay{found, found->microseconds + extra}
                                                     : NormWay{nullptr, t};
}

CudaBackend::NormWay CudaBackend::norm_forward(const BatchNorm& op, const Bound& b, float* scratch) {
    kernels::BatchNormArgs trial = args_of(op, b);  // with scratch in place of running statistics
    trial.running_mean = scratch;
    trial.running_var = scratch + trial.x.shape.c;
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(trial.x.shape));
    return norm_way(norm_plan(op, b, PlanSpec::norm), 0, norm_key(PlanSpec::norm, op, b),
                    [&] { kernels::batch_norm_forward(trial, workspace_->at(part), compute_.get()); });
}

CudaBackend::NormWay CudaBackend::norm_backward(const BatchNorm& op, const Bound& b,
                                                const kernels::BatchNormGradients& g) {
    // cuDNN's writes gradients, and all of them; the kernels can also add to them.
    const bool whole = g.dscale && g.dx.data && !g.accumulate_dx &&
                       (op.residual == none || (g.dresidual.data && !g.accumulate_dresidual));
    const Plan* found = whole ? norm_plan(op, b, PlanSpec::norm_gradient) : nullptr;
    const std::string key = norm_key(PlanSpec::norm_gradient, op, b);
    // A trial writes the step's own outputs: no step has run yet, so nothing is lost.
    const float extra =
        found && op.residual != none
            ? plans_.measured("mask for " + key,
                              [&] { residual_gradient(op.act, b.values[op.y], g.dy, g.dresidual, compute_.get()); })
            : 0;
    const kernels::BatchNormArgs args = args_of(op, b);
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape));
    return norm_way(found, extra, key,
                    [&] { kernels::batch_norm_backward(args, g, workspace_->at(part), compute_.get()); });
}

bool CudaBackend::forward_by_plan(const BatchNorm& op, const Bound& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y];
    const PlanSpec spec = norm_spec(PlanSpec::norm, op, x.shape, x.dtype);
    if (!norm_plan(op, b, PlanSpec::norm)) return false;
    const Buffer statistics = allocate(2 * size_t(x.shape.c) * sizeof(float));
    auto* next = static_cast<float*>(statistics.get());
    const Plan* found = norm_forward(op, b, next).plan;
    if (!found) return false;
    const kernels::BatchNormArgs a = args_of(op, b);
    // The update moves the running statistics to their place, unless the step went wrong.
    next_statistics_.push_back(statistics);
    new_running_.push_back({next, a.running_mean, a.channels});
    new_running_.push_back({next + x.shape.c, a.running_var, a.channels});
    void *scale = b.params[op.scale].data, *bias = b.params[op.bias].data;
    std::vector<Operand> operands = {{Slot::x, x.data},
                                     {Slot::scale, scale},
                                     {Slot::bias, bias},
                                     {Slot::running_mean, a.running_mean},
                                     {Slot::running_var, a.running_var},
                                     {Slot::next_mean, next},
                                     {Slot::next_var, next + x.shape.c},
                                     {Slot::mean, a.mean},
                                     {Slot::invstd, a.invstd},
                                     {Slot::y, y.data}};
    if (spec.add) operands.push_back({Slot::residual, a.residual.data});
    step(tape, b.step(StepPhase::forward, "batch norm forward"), *found, operands);
    return true;
}

void CudaBackend::backward(const BatchNorm& op, const Bound& b, Tape& tape) {
    const kernels::BatchNormArgs args = args_of(op, b);
    last_norm_ = {};
    kernels::BatchNormGradients g;
    g.dy = b.value_gradients[op.y];
    g.dx = b.value_gradients[op.x];
    if (op.residual != none) g.dresidual = b.value_gradients[op.residual];
    g.dscale = b.param_gradients[op.scale].as<float>();
    g.dbias = b.param_gradients[op.bias].as<float>();
    g.accumulate_dx = b.accumulate[op.x] || op.residual == op.x;  // the residual's gradient is written first
    g.accumulate_dresidual = op.residual != none && b.accumulate[op.residual];
    const StepId id = b.step(StepPhase::gradient, "batch norm gradient");
    const bool synchronised = options_.sync_bn && sums_;
    if (!synchronised && (backward_by_conv_sums(op, b, g, tape) || backward_by_plan(op, b, g, tape))) return;
    const int count = 2 * args.channels + 1;
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape)),
                          sums = workspace_->part(part.end(), synchronised ? size_t(count) * sizeof(double) : 0);
    step(tape, id, [=, this](cudaStream_t s) {
        if (!synchronised) return kernels::batch_norm_backward(args, g, workspace_->at(part), s);
        auto* totals = static_cast<double*>(workspace_->at(sums));
        kernels::batch_norm_gradient_sums(args, g, totals, workspace_->at(part), s);
        sums_->sum_now(totals, count);
        kernels::batch_norm_gradient_apply(args, g, totals, s);
    });
    last_norm_ = {synchronised || g.accumulate_dx || !g.dx.data ? 0 : tape.size(), args, g, part};
}

bool CudaBackend::backward_by_plan(const BatchNorm& op, const Bound& b, const kernels::BatchNormGradients& g,
                                   Tape& tape) {
    if (!norm_plan(op, b, PlanSpec::norm_gradient)) return false;
    const Tensor &x = b.values[op.x], &dx = g.dx, &dy = g.dy;
    const bool residual = op.residual != none;
    const PlanSpec spec = norm_spec(PlanSpec::norm_gradient, op, x.shape, x.dtype);
    const Plan* found = norm_backward(op, b, g).plan;
    if (!found) return false;
    const StepId id = b.step(StepPhase::gradient, "batch norm gradient");
    void* masked = dy.data;
    if (residual) {  // the residual's gradient is also the norm's masked dy
        const Tensor y = b.values[op.y], from = dy, to = g.dresidual;
        step(tape, followed(id, "of the residual"),
             [=, act = op.act](cudaStream_t s) { residual_gradient(act, y, from, to, s); });
        masked = to.data;
    }
    const kernels::BatchNormArgs a = args_of(op, b);
    std::vector<Operand> operands = {{Slot::dy, masked},
                                     {Slot::x, x.data},
                                     {Slot::scale, b.params[op.scale].data},
                                     {Slot::mean, a.mean},
                                     {Slot::invstd, a.invstd},
                                     {Slot::dx, dx.data},
                                     {Slot::dscale, b.param_gradients[op.scale].data},
                                     {Slot::dbias, b.param_gradients[op.bias].data}};
    if (spec.relu) operands.push_back({Slot::bias, b.params[op.bias].data});
    step(tape, id, *found, operands);
    return true;
}

}  // namespace convoy::cuda
