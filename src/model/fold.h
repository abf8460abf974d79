// Folds batch norms into convolutions. In inference a batch norm is y = factor x + shift per
// channel. After a convolution, factor and shift can become part of its weight and bias.
#pragma once
#include <vector>

#include "model/graph.h"

namespace convoy {

struct ChannelFactors {
    std::vector<float> factor, shift;  ///< [channels]
};

/// Returns the factors of a batch norm with its running statistics, rounded once. `values` are by
/// ParamId.
ChannelFactors factors_of(const BatchNorm&, const std::vector<std::vector<float>>& values);

struct FoldedModel {
    Graph graph;
    std::vector<std::vector<float>> values;  ///< by ParamId
};

/// Returns a model that computes the same logits. A batch norm that alone reads a convolution is
/// folded into it; the convolution gets a bias if it has none. Other batch norms stay. `graph` must
/// not be fused.
FoldedModel fold_batch_norms(const Graph& graph, const std::vector<std::vector<float>>& values);

}  // namespace convoy
