// Batch norm, run by the algorithm selected for it (gpu/algorithms.h).
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernel_trial.h"
#include "backend/gpu/saved.h"

namespace convoy::cuda {
namespace {

// A parameter's slot in the arena is padded with zeros to at least the number of stored channels.
// A padding channel has scale 0 and bias 0, so its values stay zero when cuDNN computes them.
static_assert(stats_elements % tensor_core_multiple == 0);

kernels::BatchNormArgs args_of(const BatchNorm& op, const OpArguments& b) {
    kernels::BatchNormArgs a;
    a.x = b.values[op.x];
    a.y = b.values[op.y];
    a.channels = a.x.channels();
    if (op.residual != none) {
        a.residual = b.values[op.residual];
        a.residual_channels = a.residual.channels();
    }
    a.act = act_of(op.act);
    a.scale = b.params[op.scale].as<float>();
    a.bias = b.params[op.bias].as<float>();
    const NormSaved saved(b.own_saved(), a.x);
    a.mean = saved.mean;
    a.invstd = saved.invstd;
    a.running_mean = b.params[op.mean].as<float>();
    a.running_var = b.params[op.var].as<float>();
    a.epsilon = op.epsilon;
    a.momentum = op.momentum;
    return a;
}

kernels::BatchNormGradients gradients_of(const BatchNorm& op, const OpArguments& b) {
    kernels::BatchNormGradients g;
    g.dy = b.value_gradients[op.y];
    g.dx = b.value_gradients[op.x];
    if (op.residual != none) g.dresidual = b.value_gradients[op.residual];
    g.dscale = b.param_gradients[op.scale].as<float>();
    g.dbias = b.param_gradients[op.bias].as<float>();
    g.accumulate_dx = b.accumulate[op.x] || op.residual == op.x;  // the residual's gradient is written first
    g.accumulate_dresidual = op.residual != none && b.accumulate[op.residual];
    return g;
}

/// Adds the max-pool that writes x, for kernels that do both.
void add_pool(kernels::BatchNormArgs& a, const OpArguments& b, int index) {
    const auto& pool = std::get<Pool>(b.graph.ops[index]);
    a.image = b.values[pool.x];
    a.pool = pool.kernel;
    a.index = static_cast<uint8_t*>(b.saved[index]);
}

/// Returns the sums that the convolution before this norm wrote.
ConvSaved sums_before(const BatchNorm& op, const OpArguments& b) {
    const std::vector<int> writers = writers_of(b.graph);
    return {b.saved[writers[op.x]], b.values[op.x]};
}

}  // namespace

void CudaBackend::forward(const BatchNorm& op, const OpArguments& b, Tape& tape) {
    kernels::BatchNormArgs args = args_of(op, b);
    if (!b.training) {
        if (args.x.shape.n > 0)
            append(tape, b.launch(LaunchPhase::forward, "batch norm"),
                   [args](cudaStream_t s) { kernels::batch_norm_inference(args, s); });
        return;
    }
    const NormAlgorithm& algorithm = algorithm_of(b).norm;
    LaunchId id = b.launch(LaunchPhase::forward, "batch norm forward");
    if (algorithm.forward_by == NormAlgorithm::fixed)
        return append(tape, id, [args](cudaStream_t s) { kernels::batch_norm_fixed(args, s); });
    if (algorithm.forward_by == NormAlgorithm::synchronised) return forward_over_ranks(args, std::move(id), tape);
    if (algorithm.forward_by == NormAlgorithm::plan) return forward_by_plan(op, b, tape);
    if (algorithm.forward_by == NormAlgorithm::sums)
        return append(tape, id, [args, from = sums_before(op, b)](cudaStream_t s) {
            kernels::batch_norm_forward(args, from.sum, from.squares, s);
        });
    if (algorithm.forward_by == NormAlgorithm::reader)
        return append(tape, id,
                      [args, from = sums_before(op, b), to = NormSaved(b.own_saved(), args.x)](cudaStream_t s) {
                          kernels::batch_norm_statistics(args, from.sum, from.squares, to.scale, to.bias, s);
                      });
    if (algorithm.pool != none) {
        add_pool(args, b, algorithm.pool);
        id = fused_with(id, "pool", algorithm.pool);
    }
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape));
    append(tape, id,
           [=, workspace = workspace_](cudaStream_t s) { kernels::batch_norm_forward(args, workspace->at(part), s); });
}

void CudaBackend::forward_over_ranks(const kernels::BatchNormArgs& args, LaunchId id, Tape& tape) {
    const int count = 2 * args.channels + 1;
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape)),
                          sums = workspace_->part(part.end(), size_t(count) * sizeof(double));
    append(tape, std::move(id), [=, this](cudaStream_t s) {
        auto* totals = static_cast<double*>(workspace_->at(sums));
        kernels::batch_norm_sums(args, totals, workspace_->at(part), s);
        all_reduce_->sum_now(totals, count);
        kernels::batch_norm_normalise(args, totals, s);
    });
}

void CudaBackend::forward_by_plan(const BatchNorm& op, const OpArguments& b, Tape& tape) {
    const kernels::BatchNormArgs a = args_of(op, b);
    const PlanSpec& spec = algorithm_of(b).norm.forward;
    const NormSaved saved(b.own_saved(), a.x);
    std::vector<Operand> operands = {{Slot::x, a.x.data},
                                     {Slot::scale, b.params[op.scale].data},
                                     {Slot::bias, b.params[op.bias].data},
                                     {Slot::running_mean, a.running_mean},
                                     {Slot::running_var, a.running_var},
                                     {Slot::next_mean, saved.next_mean},
                                     {Slot::next_var, saved.next_var},
                                     {Slot::mean, a.mean},
                                     {Slot::invstd, a.invstd},
                                     {Slot::y, a.y.data}};
    if (spec.add) operands.push_back({Slot::residual, a.residual.data});
    append(tape, b.launch(LaunchPhase::forward, "batch norm forward"), plan(spec), operands);
}

void CudaBackend::commit_running(const OpArguments& b, Tape& tape) {
    const auto& algorithms = static_cast<const GpuAlgorithms&>(b.algorithms).per_op;
    std::vector<kernels::Span> host;
    for (size_t i = 0; i < algorithms.size(); ++i) {
        if (algorithms[i].norm.forward_by != NormAlgorithm::plan) continue;
        const auto& op = std::get<BatchNorm>(b.graph.ops[i]);
        const Tensor& x = b.values[op.x];
        const NormSaved saved(b.saved[i], x);
        host.push_back({saved.next_mean, b.params[op.mean].as<float>(), x.channels()});
        host.push_back({saved.next_var, b.params[op.var].as<float>(), x.channels()});
    }
    if (host.empty()) return;
    const Buffer spans = allocate(host.size() * sizeof(kernels::Span));
    upload(spans.get(), host.data(), host.size() * sizeof(kernels::Span));
    append(tape, named_launch(LaunchPhase::other, "running statistics"),
           [spans, count = int(host.size())](cudaStream_t s) {
               kernels::commit_finite(static_cast<const kernels::Span*>(spans.get()), count, s);
           });
}

void CudaBackend::backward(const BatchNorm& op, const OpArguments& b, Tape& tape) {
    kernels::BatchNormArgs args = args_of(op, b);
    kernels::BatchNormGradients g = gradients_of(op, b);
    const NormAlgorithm& algorithm = algorithm_of(b).norm;
    LaunchId id = b.launch(LaunchPhase::gradient, "batch norm gradient");
    if (algorithm.gradient_by == NormAlgorithm::synchronised) return backward_over_ranks(args, g, id, tape);
    if (algorithm.gradient_by == NormAlgorithm::plan) return backward_by_plan(op, b, g, tape);
    if (algorithm.pool_gradient != none) {
        const auto& pool = std::get<Pool>(b.graph.ops[algorithm.pool_gradient]);
        add_pool(args, b, algorithm.pool_gradient);
        g.dx = b.value_gradients[pool.x];
        g.accumulate_dx = algorithm.pool_gradient_adds;
        id = fused_with(id, "pool", algorithm.pool_gradient);
    }
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape));
    const auto kernels = algorithm.gradient_by == NormAlgorithm::sums    ? kernels::batch_norm_backward_of_sums
                         : algorithm.gradient_by == NormAlgorithm::fixed ? kernels::batch_norm_fixed_backward
                                                                         : kernels::batch_norm_backward;
    append(tape, id, [=, workspace = workspace_](cudaStream_t s) { kernels(args, g, workspace->at(part), s); });
}

void CudaBackend::backward_over_ranks(const kernels::BatchNormArgs& args, const kernels::BatchNormGradients& g,
                                      const LaunchId& id, Tape& tape) {
    const int count = 2 * args.channels + 1;
    const Workspace::Part part = workspace_->part(0, kernels::batch_norm_workspace(args.x.shape)),
                          sums = workspace_->part(part.end(), size_t(count) * sizeof(double));
    append(tape, id, [=, this](cudaStream_t s) {
        auto* totals = static_cast<double*>(workspace_->at(sums));
        kernels::batch_norm_gradient_sums(args, g, totals, workspace_->at(part), s);
        all_reduce_->sum_now(totals, count);
        kernels::batch_norm_gradient_apply(args, g, totals, s);
    });
}

void CudaBackend::backward_by_plan(const BatchNorm& op, const OpArguments& b, const kernels::BatchNormGradients& g,
                                   Tape& tape) {
    const LaunchId id = b.launch(LaunchPhase::gradient, "batch norm gradient");
    const PlanSpec& spec = algorithm_of(b).norm.gradient;
    const kernels::BatchNormArgs a = args_of(op, b);
    void* masked = g.dy.data;
    if (op.residual != none) {  // the residual's gradient equals the masked dy of the norm
        append(tape, followed(id, "of the residual"),
               [=, act = op.act](cudaStream_t s) { residual_gradient(act, a.y, g.dy, g.dresidual, s); });
        masked = g.dresidual.data;
    }
    std::vector<Operand> operands = {
        {Slot::dy, masked},       {Slot::x, a.x.data},      {Slot::scale, b.params[op.scale].data},
        {Slot::mean, a.mean},     {Slot::invstd, a.invstd}, {Slot::dx, g.dx.data},
        {Slot::dscale, g.dscale}, {Slot::dbias, g.dbias}};
    if (spec.relu) operands.push_back({Slot::bias, b.params[op.bias].data});
    append(tape, id, plan(spec), operands);
}

}  // namespace convoy::cuda
