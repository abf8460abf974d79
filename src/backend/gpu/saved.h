// The layout of an op's OpArguments::saved on GPUs (OpMemory::saved bytes, as algorithms.cpp counts
// them). Vectors are f32, with an element per stored channel of the tensor, unless stated
// otherwise.
#pragma once
#include "base/tensor.h"

namespace convoy::cuda {

/// The saved data of a batch norm of x.
struct NormSaved {
    float *mean = nullptr, *invstd = nullptr;
    float *next_mean = nullptr, *next_var = nullptr;  ///< forward by a plan: the new running statistics
    void *scale = nullptr, *bias = nullptr;           ///< forward by the norm's reader: in the type of x

    NormSaved(void* saved, const Tensor& x) {
        if (!saved) return;  // outside training
        const size_t c = size_t(x.shape.c);
        mean = static_cast<float*>(saved);
        invstd = mean + c;
        next_mean = mean + 2 * c;
        next_var = mean + 3 * c;
        scale = next_mean;
        bias = static_cast<char*>(scale) + c * size_of(x.dtype);
    }
};

/// The saved data of a convolution that writes the sums of y and of y^2.
struct ConvSaved {
    float *sum, *squares;
    ConvSaved(void* saved, const Tensor& y) : sum(static_cast<float*>(saved)), squares(sum + y.shape.c) {}
};

}  // namespace convoy::cuda
