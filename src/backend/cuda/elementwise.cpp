// ReLU, GELU and add that were not fused into another op, and scaling.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

void CudaBackend::forward(const Relu& op, const OpArguments& b, Tape& tape) {
    append(tape, b.launch(LaunchPhase::forward, "relu"),
           [x = b.values[op.x], y = b.values[op.y]](cudaStream_t s) { kernels::relu_forward(x, y, s); });
}

void CudaBackend::backward(const Relu& op, const OpArguments& b, Tape& tape) {
    const Tensor y = b.values[op.y], dy = b.value_gradients[op.y], dx = b.value_gradients[op.x];
    if (!dx.data) return;
    append(tape, b.launch(LaunchPhase::gradient, "relu gradient"),
           [=, add = bool(b.accumulate[op.x])](cudaStream_t s) { kernels::relu_backward(y, dy, dx, add, s); });
}

void CudaBackend::forward(const Gelu& op, const OpArguments& b, Tape& tape) {
    append(tape, b.launch(LaunchPhase::forward, "gelu"),
           [x = b.values[op.x], y = b.values[op.y]](cudaStream_t s) { kernels::gelu_forward(x, y, s); });
}

void CudaBackend::backward(const Gelu& op, const OpArguments& b, Tape& tape) {
    const Tensor x = b.values[op.x], dy = b.value_gradients[op.y], dx = b.value_gradients[op.x];
    if (!dx.data) return;
    append(tape, b.launch(LaunchPhase::gradient, "gelu gradient"),
           [=, add = bool(b.accumulate[op.x])](cudaStream_t s) { kernels::gelu_backward(x, dy, dx, add, s); });
}

void CudaBackend::forward(const Scale& op, const OpArguments& b, Tape& tape) {
    scale(b.launch(LaunchPhase::forward, "scale"), b.values[op.x], op.factor, b.values[op.y], false, tape);
}

void CudaBackend::backward(const Scale& op, const OpArguments& b, Tape& tape) {
    if (b.value_gradients[op.x].data)
        scale(b.launch(LaunchPhase::gradient, "scale gradient"), b.value_gradients[op.y], op.factor,
              b.value_gradients[op.x], b.accumulate[op.x], tape);
}

void CudaBackend::add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape& tape) {
    scale(named_launch(LaunchPhase::other, "scale"), from, factor, to, accumulate, tape);
}

void CudaBackend::scale(LaunchId id, const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape& tape) {
    append(tape, std::move(id), [=](cudaStream_t s) { kernels::scale(from, factor, to, accumulate, s); });
}

void CudaBackend::forward(const Add& op, const OpArguments& b, Tape& tape) {
    append(tape, b.launch(LaunchPhase::forward, "add"),
           [x = b.values[op.a], z = b.values[op.b], y = b.values[op.y]](cudaStream_t s) {
               kernels::add_forward(x, z, y, s);
           });
}

void CudaBackend::backward(const Add& op, const OpArguments& b, Tape& tape) {
    const Tensor dy = b.value_gradients[op.y];
    for (const bool second : {false, true}) {
        const ValueId id = second ? op.b : op.a;
        const Tensor dx = b.value_gradients[id];
        if (!dx.data) continue;
        const bool add = b.accumulate[id] || (second && op.a == op.b);
        append(tape, b.launch(LaunchPhase::gradient, "add gradient"),
               [=](cudaStream_t s) { kernels::add_backward(dy, dx, add, s); });
    }
}

}  // namespace convoy::cuda
