// PyramidNet's shortcut: x, or its 2x2 average, with zero channels appended.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

void CudaBackend::forward(const PadShortcut& op, const OpArguments& b, Tape& tape) {
    append(tape, b.launch(LaunchPhase::forward, "shortcut"),
           [x = b.values[op.x], y = b.values[op.y], stride = op.stride](cudaStream_t s) {
               kernels::pad_shortcut_forward(stride, x, y, s);
           });
}

void CudaBackend::backward(const PadShortcut& op, const OpArguments& b, Tape& tape) {
    const Tensor dy = b.value_gradients[op.y], dx = b.value_gradients[op.x];
    if (!dx.data) return;
    append(tape, b.launch(LaunchPhase::gradient, "shortcut gradient"),
           [=, stride = op.stride, channels = b.values[op.x].channels(), add = bool(b.accumulate[op.x])](
               cudaStream_t s) { kernels::pad_shortcut_backward(stride, dy, dx, channels, add, s); });
}

}  // namespace convoy::cuda
