// Max and average pooling. Maxima remember where they came from in `saved`. A max-pool right in front of a batch norm that kernels do is one
// step with it, forward and backward.
#include "backend/cuda/cuda_backend.h"
#include "backend/gpu_saved.h"

namespace convoy {
namespace {

/// Windows that batch norm's kernels can take with them.
bool side_by_side(const Pool& op) {
    return op.kind == Pool::max && op.stride == op.kernel && op.pad == 0 && (op.kernel == 2 || op.kernel == 3);
}

bool apart(const Tensor& a, const Tensor& b) {
    const auto *of_a = static_cast<const char*>(a.data), *of_b = static_cast<const char*>(b.data);
    return of_a + a.bytes() <= of_b || of_b + b.bytes() <= of_a;
}

}  // namespace

size_t CudaBackend::saved_bytes(const Op& op, const Graph& graph, int batch) { return gpu_saved_bytes(op, graph, batch); }

void CudaBackend::forward(const Pool& op, const Bound& b, Tape& tape) {
    auto* index = b.training && op.kind == Pool::max ? static_cast<uint8_t*>(b.saved) : nullptr;
    step(tape, "pool forward " + b.name,
         [=, x = b.values[op.x], y = b.values[op.y]](cudaStream_t s) { kernels::pool_forward(op, x, y, index, s); });
    last_pool_ = {};
    if (!index || !side_by_side(op)) return;
    last_pool_.steps = tape.size();
    last_pool_.of.x = b.values[op.y], last_pool_.of.image = b.values[op.x], last_pool_.of.pool = op.kernel, last_pool_.of.index = index;
}

void CudaBackend::backward(const Pool& op, const Bound& b, Tape& tape) {
    const Tensor dy = b.value_gradients[op.y], dx = b.value_gradients[op.x];
    if (!dx.data) return;
    auto* index = op.kind == Pool::max ? static_cast<uint8_t*>(b.saved) : nullptr;
    if (index && side_by_side(op) && last_norm_.steps > 0 && last_norm_.steps == tape.size() && last_norm_.to.dx.data == dy.data) {
        NormStep norm = last_norm_;
        require(apart(dx, norm.to.dy) && apart(dx, norm.args.x), "what a batch norm's gradient reads is kept until that of the max-pool in front");
        norm.args.image = b.values[op.x], norm.args.pool = op.kernel, norm.args.index = index;
        norm.to.dx = dx, norm.to.accumulate_dx = b.accumulate[op.x];
        const std::string name = "pool and " + tape.back().name;
        last_norm_ = {};
        tape.pop_back();
        return step(tape, name, [=, workspace = workspace_](cudaStream_t s) {
            kernels::batch_norm_backward(norm.args, norm.to, workspace->at(norm.part), s);
        });
    }
    step(tape, "pool gradient " + b.name,
         [=, add = bool(b.accumulate[op.x])](cudaStream_t s) { kernels::pool_backward(op, dy, dx, index, add, s); });
}

}  // namespace convoy
