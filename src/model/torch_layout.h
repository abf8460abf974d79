// The tensors of a model in a state_dict of PyTorch: names, shapes and order of elements.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/graph.h"

namespace convoy {

struct TorchEntry {
    std::string name;           ///< as torch_name() returns it
    std::vector<int64_t> dims;  ///< convolutions [out, in, height, width], linear layers [out, in], vectors [channels]
    ParamId param = none;       ///< none: a counter num_batches_tracked, which models here do not have
    /// The parameter's elements are [n][h][w][c] here, and [n][c][h][w] in the state_dict. PyTorch
    /// flattens the input of a linear layer channel by channel.
    Shape order{};
};

/// Returns all tensors of a model's state_dict, in the order of its layers.
std::vector<TorchEntry> torch_layout(const Graph&);

/// Return the elements of one tensor [order.count()] in the order of the state_dict, and in
/// Convoy's order.
std::vector<float> to_torch_order(const std::vector<float>& values, Shape order);
std::vector<float> from_torch_order(const std::vector<float>& values, Shape order);

}  // namespace convoy
