// The type that activations and their gradients have. Parameters, statistics, logits and the loss
// stay f32.
#pragma once
#include "model/graph.h"

namespace convoy {

enum class Precision {
    f32,   ///< exact products
    tf32,  ///< f32 in memory, products of 10-bit mantissas
    bf16,
    f16,  ///< with loss scaling
};

constexpr int tensor_core_multiple = 8;  ///< channels that tensor cores take: 16 bytes of a 2-byte type

const char* name_of(Precision);
/// Sets the types of values, and outside f32 pads their channels to a multiple. The logits stay f32
/// and dense.
Graph with_precision(Graph, Precision, int channel_multiple = tensor_core_multiple);

}  // namespace convoy
