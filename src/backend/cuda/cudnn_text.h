// A graph as cuDNN's frontend serialises it, in lines that a person and a comparison can read.
#pragma once
#include <string>

namespace convoy::cuda {

/// From its JSON: a line for the graph, one for each node with its operands, one for each tensor.
std::string text_of_graph(const std::string& json);

}  // namespace convoy::cuda
