// The ways in which a convolution may run on a CPU; backend/cpu/conv_ways.h says which one can.
#pragma once
#include <cstdint>

namespace convoy {

enum class ConvBy : uint8_t {
    measured,        ///< the fastest of those below
    direct,          ///< oneDNN's direct convolution; products in f32, as in all that do not say bf16
    direct_bf16,     ///< the same with products in bf16
    winograd,        ///< Winograd's F(4x4, 3x3)
    winograd_large,  ///< F(7x7, 3x3) or F(8x8, 3x3), of values in bf16
    product,         ///< oneDNN's product of matrices: patches times weights
    product_bf16,    ///< the same in bf16, of 1x1 kernels
};

}  // namespace convoy
