// What computes one convolution in one direction and one way, on plain NHWC tensors.
#pragma once
#include "backend/conv_by.h"
#include "backend/cpu/primitives.h"

namespace convoy::cpu {

/// Operands of a convolution. What its direction writes is a gradient then: forward reads x and the
/// weight, and writes y; the weight gradient reads x and y, and writes the weight; the data
/// gradient reads y and the weight, and writes x.
struct ConvCall {
    Conv op;
    Tensor x, y;          ///< [n, h, w, in], [n, h', w', out]
    Tensor weight, bias;  ///< f32 [out, kh, kw, in], [1, 1, 1, out]; bias: forward only, without data if there is none
    bool add = false;     ///< data gradient: to what is in x
    bool training = true;
    int threads = 1;
};

/// `by` must be a candidate for the convolution (conv_ways.h).
void append(Calls&, const dnnl::engine&, StepPhase direction, const ConvCall&, ConvBy by);

}  // namespace convoy::cpu
