// Max and average pooling. Maxima remember where they came from in `saved`. If a max-pool feeds a
// batch norm of our kernels, one step does both, forward and backward.
#include "backend/cuda/cuda_backend.h"
#include "backend/gpu_lifetimes.h"

namespace convoy::cuda {
namespace {

/// Windows that batch norm's kernels can fuse with.
bool side_by_side(const Pool& op) {
    return op.kind == Pool::max && op.stride == op.kernel && op.pad == 0 && (op.kernel == 2 || op.kernel == 3);
}

bool apart(const Tensor& a, const Tensor& b) {
    const auto *of_a = static_cast<const char*>(a.data), *of_b = static_cast<const char*>(b.data);
    return of_a + a.bytes() <= of_b || of_b + b.bytes() <= of_a;
}

}  // namespace

size_t CudaBackend::last_reader(const Graph& graph, size_t op) const { return gpu_last_reader(graph, op); }

size_t CudaBackend::saved_bytes(const Op& op, const Graph& graph, int batch) {
    return gpu_saved_bytes(op, graph, batch);
}

void CudaBackend::forward(const Pool& op, const Bound& b, Tape& tape) {
    auto* index = b.training && op.kind == Pool::max ? static_cast<uint8_t*>(b.saved) : nullptr;
    step(tape, b.step(StepPhase::forward, "pool forward"),
         [=, x = b.values[op.x], y = b.values[op.y]](cudaStream_t s) { kernels::pool_forward(op, x, y, index, s); });
    last_pool_ = {};
    if (!index || !side_by_side(op)) return;
    last_pool_.steps = tape.size();
    last_pool_.op = b.op;
    last_pool_.of.x = b.values[op.y];
    last_pool_.of.image = b.values[op.x];
    last_pool_.of.pool = op.kernel;
    last_pool_.of.index = index;
}

void CudaBackend::backward(const Pool& op, const Bound& b, Tape& tape) {
    const Tensor dy = b.value_gradients[op.y], dx = b.value_gradients[op.x];
    if (!dx.data) return;
    auto* index = op.kind == Pool::max ? static_cast<uint8_t*>(b.saved) : nullptr;
    if (index && side_by_side(op) && last_norm_.steps > 0 && last_norm_.steps == tape.size() &&
        last_norm_.to.dx.data == dy.data) {
        NormStep norm = last_norm_;
        require(apart(dx, norm.to.dy) && apart(dx, norm.args.x),
                "what a batch norm's gradient reads lives until the gradient of the max-pool feeding it");
        norm.args.image = b.values[op.x];
        norm.args.pool = op.kernel;
        norm.args.index = index;
        norm.to.dx = dx;
        norm.to.accumulate_dx = b.accumulate[op.x];
        const StepId both = fused_with(tape.back().id, "pool", b.op);
        last_norm_ = {};
        unwritten_gradients_.insert(op.y);
        tape.pop_back();
        return step(tape, both, [=, workspace = workspace_](cudaStream_t s) {
            kernels::batch_norm_backward(norm.args, norm.to, workspace->at(norm.part), s);
        });
    }
    step(tape, b.step(StepPhase::gradient, "pool gradient"),
         [=, add = bool(b.accumulate[op.x])](cudaStream_t s) { kernels::pool_backward(op, dy, dx, index, add, s); });
}

}  // namespace convoy::cuda
