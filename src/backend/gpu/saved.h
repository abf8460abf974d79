// Where Bound::saved of an op holds what, on GPUs (OpMemory::saved bytes, as ways.cpp counts them).
// Vectors of f32 with as many elements as the tensor has stored channels, unless said otherwise.
#pragma once
#include "base/tensor.h"

namespace convoy::cuda {

/// Of a batch norm of x.
struct NormSaved {
    float *mean = nullptr, *invstd = nullptr;
    float *next_mean = nullptr, *next_var = nullptr;  ///< of a norm by a plan: the new running statistics
    void *scale = nullptr, *bias = nullptr;           ///< of a norm in its reader, in the type of x

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

/// Of a convolution that writes the sums of y and of its squares.
struct ConvSaved {
    float *sum, *squares;
    ConvSaved(void* saved, const Tensor& y) : sum(static_cast<float*>(saved)), squares(sum + y.shape.c) {}
};

}  // namespace convoy::cuda
