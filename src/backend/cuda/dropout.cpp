// Dropout. The mask is a function of (seed, step, position, element), so backward draws it again
// and nothing is stored.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

void CudaBackend::forward(const Dropout& op, const OpArguments& b, Tape& tape) {
    const Tensor x = b.values[op.x], y = b.values[op.y];
    if (!b.training)
        return append(tape, b.launch(LaunchPhase::forward, "dropout (identity)"),
                      [=](cudaStream_t s) { kernels::add_backward(x, y, false, s); });
    append(tape, b.launch(LaunchPhase::forward, "dropout"),
           [=, seed = b.seed, first = b.first, counters = b.counters](cudaStream_t s) {
               kernels::dropout(op, x, y, x.channels(), seed, first, counters, false, s);
           });
}

void CudaBackend::backward(const Dropout& op, const OpArguments& b, Tape& tape) {
    const Tensor dy = b.value_gradients[op.y], dx = b.value_gradients[op.x];
    if (!dx.data) return;
    append(tape, b.launch(LaunchPhase::gradient, "dropout gradient"),
           [=, seed = b.seed, first = b.first, counters = b.counters, add = bool(b.accumulate[op.x])](cudaStream_t s) {
               kernels::dropout(op, dy, dx, dy.channels(), seed, first, counters, add, s);
           });
}

}  // namespace convoy::cuda
