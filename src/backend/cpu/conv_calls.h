// Computes one convolution in one direction with one algorithm, on plain NHWC tensors.
#pragma once
#include "backend/cpu/primitives.h"
#include "ops/conv_by.h"

namespace convoy::cpu {

/// Operands of a convolution; an operand is a value or its gradient, depending on the direction.
/// Forward reads x and the weight, and writes y. The weight gradient reads x and dy (in `y`), and
/// writes dweight (in `weight`). The data gradient reads dy (in `y`) and the weight, and writes dx
/// (in `x`).
struct ConvCall {
    Conv op;
    Tensor x, y;          ///< [n, h, w, in], [n, h', w', out]
    Tensor weight, bias;  ///< f32 [out, kh, kw, in], [1, 1, 1, out]; bias: forward only; no data: none
    bool add = false;     ///< data gradient: add to x instead of overwriting it
    bool training = true;
    int threads = 1;
};

/// Appends the calls of one direction. `by` must be a candidate for the convolution
/// (conv_algorithms.h).
void append(Calls&, const dnnl::engine&, LaunchPhase direction, const ConvCall&, ConvBy by);

}  // namespace convoy::cpu
