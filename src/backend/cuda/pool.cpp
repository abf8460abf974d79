// Max and average pooling. Maxima remember where they came from in `saved`.
#include "backend/cuda/cuda_backend.h"

namespace convoy {

size_t CudaBackend::saved_bytes(const Op& op, const Graph& graph, int batch) {
    if (const auto* bn = std::get_if<BatchNorm>(&op))
        return 2 * sizeof(float) * size_t(graph.values[bn->x].batched(1).c);  // mean, 1 / deviation
    const auto* pool = std::get_if<Pool>(&op);
    return pool && pool->kind == Pool::max ? graph.values[pool->y].batched(batch).count() : 0;
}

void CudaBackend::forward(const Pool& op, const Bound& b, Tape& tape) {
    auto* index = b.training && op.kind == Pool::max ? static_cast<uint8_t*>(b.saved) : nullptr;
    step(tape, "pool forward " + b.name,
         [=, x = b.values[op.x], y = b.values[op.y]](cudaStream_t s) { kernels::pool_forward(op, x, y, index, s); });
}

void CudaBackend::backward(const Pool& op, const Bound& b, Tape& tape) {
    const Tensor dy = b.value_gradients[op.y], dx = b.value_gradients[op.x];
    if (!dx.data) return;
    const auto* index = op.kind == Pool::max ? static_cast<const uint8_t*>(b.saved) : nullptr;
    step(tape, "pool gradient " + b.name,
         [=, add = bool(b.accumulate[op.x])](cudaStream_t s) { kernels::pool_backward(op, dy, dx, index, add, s); });
}

}  // namespace convoy
