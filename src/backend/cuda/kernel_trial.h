// Runs our kernels on scratch memory, to time them against cuDNN's plans before a program has
// memory.
#pragma once
#include <functional>
#include <vector>

#include "backend/cuda/handles.h"
#include "backend/gpu/algorithms.h"
#include "kernels/kernels.h"

namespace convoy::cuda {

/// Converts an activation for batch norm's kernels.
constexpr kernels::Act act_of(Activation a) {
    return a == Activation::relu   ? kernels::Act::relu
           : a == Activation::gelu ? kernels::Act::gelu
                                   : kernels::Act::identity;
}
/// Computes the gradient of a batch norm's residual, if a plan writes the norm's other gradients.
void residual_gradient(Activation, const Tensor& y, const Tensor& dy, const Tensor& to, cudaStream_t);

class KernelTrial {
public:
    /// Allocates the operands; throws std::bad_alloc if they do not fit.
    KernelTrial(const KernelSpec&, cudaStream_t);
    void run() const { work_(stream_); }
    size_t bytes() const { return bytes_; }  ///< of all operands

private:
    void* memory(size_t bytes);
    Tensor like(Tensor);  ///< returns the tensor with memory
    float* vector(int channels) { return static_cast<float*>(memory(size_t(channels) * sizeof(float))); }
    kernels::BatchNormArgs norm_args(const KernelSpec&);
    kernels::BatchNormGradients norm_gradients(const KernelSpec&);
    std::function<void(cudaStream_t)> work_of(const KernelSpec&);

    const cudaStream_t stream_;
    std::vector<DeviceMemory> memory_;
    size_t bytes_ = 0;
    std::function<void(cudaStream_t)> work_;
};

}  // namespace convoy::cuda
