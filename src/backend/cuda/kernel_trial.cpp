#include "backend/cuda/kernel_trial.h"

#include "backend/cuda/random_memory.h"

namespace convoy::cuda {

void residual_gradient(Activation act, const Tensor& y, const Tensor& dy, const Tensor& to, cudaStream_t s) {
    if (act == Activation::relu)
        kernels::relu_backward(y, dy, to, false, s);
    else
        kernels::add_backward(dy, to, false, s);
}

KernelTrial::KernelTrial(const KernelSpec& spec, cudaStream_t stream) : stream_(stream), work_(work_of(spec)) {}

void* KernelTrial::memory(size_t bytes) {
    bytes_ += bytes;
    memory_.push_back(random_memory(std::max<size_t>(bytes, 1), stream_));
    return memory_.back().get();
}

Tensor KernelTrial::like(Tensor t) {
    t.data = memory(t.bytes());
    return t;
}

kernels::BatchNormArgs KernelTrial::norm_args(const KernelSpec& spec) {
    kernels::BatchNormArgs a;
    a.x = like(spec.x);
    a.y = like(spec.x);
    a.channels = a.x.channels();
    if (spec.residual) {
        a.residual = like(*spec.residual);
        a.residual_channels = a.residual.channels();
    }
    a.act = act_of(spec.act);
    const int c = spec.x.shape.c;
    a.scale = vector(c), a.bias = vector(c);
    a.mean = vector(c), a.invstd = vector(c);
    a.running_mean = vector(c), a.running_var = vector(c);
    a.epsilon = 1;
    return a;
}

kernels::BatchNormGradients KernelTrial::norm_gradients(const KernelSpec& spec) {
    kernels::BatchNormGradients g;
    g.dy = like(spec.x);
    g.dx = like(spec.x);
    if (spec.residual) g.dresidual = like(*spec.residual);
    g.dscale = vector(spec.x.shape.c), g.dbias = vector(spec.x.shape.c);
    g.accumulate_dx = spec.accumulate_x;
    g.accumulate_dresidual = spec.accumulate_residual;
    return g;
}

std::function<void(cudaStream_t)> KernelTrial::work_of(const KernelSpec& spec) {
    if (spec.kind == KernelSpec::addition)
        return [from = like(spec.x), to = like(spec.x)](cudaStream_t s) { kernels::add_backward(from, to, true, s); };
    if (spec.kind == KernelSpec::residual_gradient)
        return [act = spec.act, y = like(spec.x), dy = like(spec.x), to = like(spec.x)](cudaStream_t s) {
            residual_gradient(act, y, dy, to, s);
        };
    const kernels::BatchNormArgs args = norm_args(spec);
    void* workspace = memory(kernels::batch_norm_workspace(args.x.shape));
    if (spec.kind == KernelSpec::norm) return [=](cudaStream_t s) { kernels::batch_norm_forward(args, workspace, s); };
    if (spec.kind == KernelSpec::norm_gradient || spec.kind == KernelSpec::gradient_of_sums)
        return [=, of_sums = spec.kind == KernelSpec::gradient_of_sums, g = norm_gradients(spec)](cudaStream_t s) {
            (of_sums ? kernels::batch_norm_backward_of_sums : kernels::batch_norm_backward)(args, g, workspace, s);
        };
    const float *sum = vector(args.x.shape.c), *squares = vector(args.x.shape.c);
    if (spec.kind == KernelSpec::normalise)
        return [=](cudaStream_t s) { kernels::batch_norm_forward(args, sum, squares, s); };
    return [=, scale = memory(size_t(args.x.shape.c) * sizeof(float)),
            bias = memory(size_t(args.x.shape.c) * sizeof(float))](cudaStream_t s) {
        kernels::batch_norm_statistics(args, sum, squares, scale, bias, s);
    };
}

}  // namespace convoy::cuda
