// The type of activations and their gradients. Parameters, statistics, logits and the loss stay
// f32.
#pragma once
#include "model/graph.h"

namespace convoy {

enum class Precision {
    f32,   ///< multiplications use all 24 bits of the mantissas
    tf32,  ///< f32 in memory; multiplications round mantissas to 10 bits
    bf16,
    f16,  ///< with loss scaling
};

constexpr int tensor_core_multiple = 8;  ///< tensor cores need multiples of 8 channels: 16 bytes of a 2-byte type

const char* name_of(Precision);
/// Sets the types of values; unless `Precision` is f32, also pads their channels to a multiple of
/// `channel_multiple`. The logits stay f32 and unpadded.
Graph with_precision(Graph, Precision, int channel_multiple = tensor_core_multiple);

}  // namespace convoy
