// Softmax cross-entropy with label smoothing, on f32 logits. In f16 the gradient is multiplied by
// the loss scale here and divided by it in the optimizer.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

void CudaBackend::forward(const SoftmaxXent& op, const OpArguments& b, Tape& tape) {
    const Tensor x = b.values[op.x];
    const kernels::LossArgs args{x, x.channels(), b.labels.as<int32_t>(), op.label_smoothing, b.mixed};
    const Workspace::Part part = workspace_->part(0, kernels::loss_workspace(x.shape.n));
    append(tape, named_launch(LaunchPhase::forward, "loss", b.op),
           [=, workspace = workspace_, stats = b.stats](cudaStream_t s) {
               kernels::loss_forward(args, stats, workspace->at(part), s);
           });
    if (b.training) commit_running(b, tape);
}

void CudaBackend::backward(const SoftmaxXent& op, const OpArguments& b, Tape& tape) {
    const Tensor x = b.values[op.x], dx = b.value_gradients[op.x];
    const kernels::LossArgs args{x, x.channels(), b.labels.as<int32_t>(), op.label_smoothing, b.mixed};
    const float* scale =
        options_.precision == Precision::f16 ? &static_cast<kernels::LossScale*>(loss_scale_.get())->scale : nullptr;
    append(tape, named_launch(LaunchPhase::gradient, "loss gradient", b.op),
           [=, global_batch = op.sum ? 1 : b.global_batch](cudaStream_t s) {
               kernels::loss_backward(args, dx, global_batch, scale, s);
           });
}

}  // namespace convoy::cuda
