// Converts a graph that cuDNN's frontend serialised to lines that people and tests can compare.
#pragma once
#include <string>

namespace convoy::cuda {

/// Converts its JSON: a line for the graph, one for each node with its operands, and one for each
/// tensor.
std::string text_of_graph(const std::string& json);

}  // namespace convoy::cuda
