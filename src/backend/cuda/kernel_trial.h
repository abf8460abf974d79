// Our kernels on memory of their own, to be timed against cuDNN's plans before a program has
// memory.
#pragma once
#include <functional>
#include <vector>

#include "backend/cuda/handles.h"
#include "backend/gpu/ways.h"
#include "kernels/kernels.h"

namespace convoy::cuda {

/// What batch norm's kernels take of its activation.
constexpr kernels::Act act_of(Activation a) {
    return a == Activation::relu   ? kernels::Act::relu
           : a == Activation::gelu ? kernels::Act::gelu
                                   : kernels::Act::identity;
}
/// The gradient of a batch norm's residual, where a plan writes its other gradients.
void residual_gradient(Activation, const Tensor& y, const Tensor& dy, const Tensor& to, cudaStream_t);

class KernelTrial {
public:
    /// Throws std::bad_alloc.
    KernelTrial(const KernelSpec&, cudaStream_t);
    void run() const { work_(stream_); }
    size_t bytes() const { return bytes_; }  ///< of its memory

private:
    void* memory(size_t bytes);
    Tensor like(Tensor);  ///< with memory
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
