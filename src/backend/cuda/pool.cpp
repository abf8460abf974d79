// Max and average pooling. A max-pool stores the positions of its maxima in `saved`. If the batch
// norm after a max-pool also does the pool (gpu/algorithms.h), nothing is appended here.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

void CudaBackend::forward(const Pool& op, const OpArguments& b, Tape& tape) {
    if (algorithm_of(b).pool.by_norm) return;
    auto* index = b.training && op.kind == Pool::max ? static_cast<uint8_t*>(b.own_saved()) : nullptr;
    append(tape, b.launch(LaunchPhase::forward, "pool forward"),
           [=, x = b.values[op.x], y = b.values[op.y]](cudaStream_t s) { kernels::pool_forward(op, x, y, index, s); });
}

void CudaBackend::backward(const Pool& op, const OpArguments& b, Tape& tape) {
    const Tensor dy = b.value_gradients[op.y], dx = b.value_gradients[op.x];
    if (!dx.data || algorithm_of(b).pool.gradient_by_norm) return;
    auto* index = op.kind == Pool::max ? static_cast<uint8_t*>(b.own_saved()) : nullptr;
    append(tape, b.launch(LaunchPhase::gradient, "pool gradient"),
           [=, add = bool(b.accumulate[op.x])](cudaStream_t s) { kernels::pool_backward(op, dy, dx, index, add, s); });
}

}  // namespace convoy::cuda
