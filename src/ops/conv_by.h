// The algorithms of a convolution on a CPU. backend/cpu/conv_algorithms.h says which of them apply.
#pragma once
#include <cstdint>

namespace convoy {

enum class ConvBy : uint8_t {
    measured,        ///< the fastest of those below
    direct,          ///< oneDNN's direct convolution, in f32 like all without bf16 in the name
    direct_bf16,     ///< the same, multiplied in bf16
    winograd,        ///< Winograd's F(4x4, 3x3)
    winograd_large,  ///< F(7x7, 3x3) or F(8x8, 3x3), multiplied in f32, only for bf16 values
    gemm,            ///< oneDNN's GEMM: patches times weights; called `product` in options
    gemm_bf16,       ///< the same in bf16, for 1x1 kernels with stride 1
};

}  // namespace convoy
