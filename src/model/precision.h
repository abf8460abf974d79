// The type of activations and their gradients. Parameters, statistics, logits and the loss stay
// f32.
#pragma once
#include "model/graph.h"

namespace convoy {

enum class Precision {
    f32,   ///< factors keep all 24 bits
    tf32,  ///< f32 in memory; factors are rounded to 10-bit mantissas
    bf16,
    f16,  ///< with loss scaling
};

constexpr int tensor_core_multiple = 8;  ///< tensor cores need multiples of 8 channels: 16 bytes of a 2-byte type

const char* name_of(Precision);
/// Sets the types of values; unless `Precision` is f32, also pads their channels to a multiple. The
/// logits stay f32 and unpadded.
Graph with_precision(Graph, Precision, int channel_multiple = tensor_core_multiple);

}  // namespace convoy
