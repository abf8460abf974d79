// Batch norm: cuDNN's fused one in bf16 and f16 where it has an engine, else the kernels, which also do what cuDNN does not: f32 to
// the last digit, GELU, frozen scales, residuals with fewer channels, gradients that are added, statistics over all ranks.
#include "backend/cuda/cuda_backend.h"

namespace convoy {
namespace {

// A parameter's slot in the arena is padded with zeros to a multiple of the channels stored: a padded channel has scale 0 and bias
// 0, so cuDNN may treat it as a channel, and zero stays zero.
static_assert(stats_elements % tensor_core_multiple == 0);

kernels::BatchNormArgs args_of(const BatchNorm& op, const Bound& b) {
    kernels::BatchNormArgs a;
    a.x = b.values[op.x];
    a.y = b.values[op.y];
    a.channels = a.x.channels();
    if (op.residual != none) {
        a.residual = b.values[op.residual];
        a.residual_channels = a.residual.channels();
    }
    a.act = op.act == Activation::relu ? kernels::Act::relu : op.act == Activation::gelu ? kernels::Act::gelu : kernels::Act::identity;
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

}  // namespace

void CudaBackend::forward(const BatchNorm& op, const Bound& b, Tape& tape) {
    const kernels::BatchNormArgs args = args_of(op, b);
    const bool empty = args.x.shape.n == 0;
    if (!b.training) {
        if (!empty) step(tape, "batch norm " + b.name, [args](cudaStream_t s) { kernels::batch_norm_inference(args, s); });
        return;
    }
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape));
    std::string name = "batch norm forward " + b.name;
    if (options_.sync_bn && sums_) {
        const int count = 2 * args.channels + 1;
        const Workspace::Part sums = workspace_->part(part.end(), size_t(count) * sizeof(double));
        step(tape, name, [=, this](cudaStream_t s) {
            auto* totals = static_cast<double*>(workspace_->at(sums));
            kernels::batch_norm_sums(args, totals, workspace_->at(part), s);
            sums_->sum_now(totals, count);
            kernels::batch_norm_normalise(args, totals, s);
        });
    } else if (!forward_by_conv_sums(op, b, tape) && !forward_by_plan(op, b, tape)) {
        kernels::BatchNormArgs with_pool = args;
        if (last_pool_.steps > 0 && last_pool_.steps == tape.size() && last_pool_.of.x.data == args.x.data) {
            with_pool.image = last_pool_.of.image, with_pool.pool = last_pool_.of.pool, with_pool.index = last_pool_.of.index;
            tape.pop_back();
            name = "pool and " + name;  // its input is read by the first kernel alone, behind which its memory may be y's
            last_pool_ = {};
        }
        step(tape, name, [=, workspace = workspace_](cudaStream_t s) { kernels::batch_norm_forward(with_pool, workspace->at(part), s); });
    }
}

bool CudaBackend::forward_by_conv_sums(const BatchNorm& op, const Bound& b, Tape& tape) {
    const kernels::BatchNormArgs args = args_of(op, b);
    const auto found = conv_steps_.find(op.x);
    if (!sums_by_conv(op, args.x.dtype) || args.x.shape.n == 0 || found == conv_steps_.end()) return false;
    const ConvStep& conv = found->second;
    if (conv.at >= tape.size() || tape[conv.at].name != conv.name || conv.operands.back().data != args.x.data) return false;  // of another tape
    PlanSpec spec = conv.spec;
    spec.statistics = true;
    const Plan* fused = plans_.find(spec);
    if (!fused) {
        note("cuDNN has no engine for '" + spec.family() + "' in some sizes: the batch norm behind sums by itself");
        return false;
    }
    const Buffer sums = allocate(2 * size_t(args.x.shape.c) * sizeof(float));
    auto* sum = static_cast<float*>(sums.get());
    float* squares = sum + args.x.shape.c;
    const bool residual = op.residual != none;
    if (norm_by_cudnn(op, args.x.shape, residual ? &b.values[op.residual].shape : nullptr, options_.precision)) {
        const PlanSpec norm = norm_spec(PlanSpec::norm, op, args.x.shape, args.x.dtype);
        const Plan* whole = plans_.find(norm);
        kernels::BatchNormArgs trial = args;  // which leaves the running statistics alone
        trial.running_mean = sum, trial.running_var = squares;
        const float normalise =
            plans_.measured("normalise " + norm.key(), [&] { kernels::batch_norm_forward(trial, sum, squares, compute_.get()); });
        if (whole && plan(conv.spec).microseconds + whole->microseconds < fused->microseconds + normalise) return false;
    }
    sums_of_convs_.push_back(sums);
    std::vector<Operand> operands = conv.operands;
    operands.insert(operands.end(), {{Slot::sum, sum}, {Slot::squares, squares}});
    Tape replacement;
    step(replacement, conv.name, *fused, operands);
    tape[conv.at] = std::move(replacement.front());
    step(tape, "batch norm forward " + b.name, [=](cudaStream_t s) { kernels::batch_norm_forward(args, sum, squares, s); });
    return true;
}

bool CudaBackend::forward_by_plan(const BatchNorm& op, const Bound& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &y = b.values[op.y];
    if (!norm_by_cudnn(op, x.shape, op.residual == none ? nullptr : &b.values[op.residual].shape, options_.precision)) return false;
    const PlanSpec spec = norm_spec(PlanSpec::norm, op, x.shape, x.dtype);
    const Plan* found = plans_.find(spec);
    if (!found) {
        note("cuDNN has no engine for '" + spec.family() + "' in some sizes: kernels/batchnorm runs");
        return false;
    }
    const kernels::BatchNormArgs a = args_of(op, b);
    // The update moves the running statistics to their place, unless the step went wrong.
    next_statistics_.push_back(allocate(2 * size_t(x.shape.c) * sizeof(float)));
    auto* next = static_cast<float*>(next_statistics_.back().get());
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
    step(tape, "batch norm forward " + b.name, *found, operands);
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
    const std::string name = "batch norm gradient " + b.name;
    const bool synchronised = options_.sync_bn && sums_;
    if (!synchronised && backward_by_plan(op, b, tape)) return;
    const int count = 2 * args.channels + 1;
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape)),
                          sums = workspace_->part(part.end(), synchronised ? size_t(count) * sizeof(double) : 0);
    step(tape, name, [=, this](cudaStream_t s) {
        if (!synchronised) return kernels::batch_norm_backward(args, g, workspace_->at(part), s);
        auto* totals = static_cast<double*>(workspace_->at(sums));
        kernels::batch_norm_gradient_sums(args, g, totals, workspace_->at(part), s);
        sums_->sum_now(totals, count);
        kernels::batch_norm_gradient_apply(args, g, totals, s);
    });
    last_norm_ = {synchronised || g.accumulate_dx || !g.dx.data ? 0 : tape.size(), args, g, part};
}

bool CudaBackend::backward_by_plan(const BatchNorm& op, const Bound& b, Tape& tape) {
    const Tensor &x = b.values[op.x], &dx = b.value_gradients[op.x], &dy = b.value_gradients[op.y];
    const bool residual = op.residual != none;
    if (!norm_by_cudnn(op, x.shape, residual ? &b.values[op.residual].shape : nullptr, options_.precision)) return false;
    if (!b.param_gradients[op.scale].data) return false;  // frozen
    if (!dx.data || b.accumulate[op.x] || (residual && (!b.value_gradients[op.residual].data || b.accumulate[op.residual]))) return false;
    const PlanSpec spec = norm_spec(PlanSpec::norm_gradient, op, x.shape, x.dtype);
    const Plan* found = plans_.find(spec);
    if (!found) {
        note("cuDNN has no engine for '" + spec.family() + "' in some sizes: kernels/batchnorm_gradient runs");
        return false;
    }
    const std::string name = "batch norm gradient " + b.name;
    void* masked = dy.data;
    if (residual) {  // what the residual gets is also what the norm gets
        const Tensor dresidual = b.value_gradients[op.residual], y = b.values[op.y];
        const bool relu = op.act == Activation::relu;
        step(tape, name + " of the residual", [=](cudaStream_t s) {
            if (relu)
                kernels::relu_backward(y, dy, dresidual, false, s);
            else
                kernels::add_backward(dy, dresidual, false, s);
        });
        masked = dresidual.data;
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
    step(tape, name, *found, operands);
    return true;
}

}  // namespace convoy
