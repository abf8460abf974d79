// Patterns of parameter names, as in "fc.*" and "stage[12].*". They are shell patterns, matched by
// fnmatch(3). A pattern may also match the name that the parameter has in PyTorch's implementation
// of the model ("layer1.*").
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/graph.h"

namespace convoy {

using NamePatterns = std::vector<std::string>;

/// True if a pattern matches the parameter's own name, or its name in PyTorch.
bool matches(const std::string& pattern, const Graph&, const Param&);
bool matches_any(const NamePatterns&, const Graph&, const Param&);
/// Throws Exit::usage, naming `option`, if a pattern matches no parameter, because a mistyped name
/// must not pass unnoticed.
void check_patterns(const NamePatterns&, const Graph&, const std::string& option);

/// A factor of the learning rate for the parameters that match a pattern.
struct RateFactor {
    std::string pattern;
    double factor;
};
/// Returns the factors by parameter name. The last pattern that matches a parameter counts. Throws
/// Exit::usage if a pattern matches no parameter, or only frozen ones.
std::map<std::string, double> factors_by_name(const std::vector<RateFactor>&, const Graph&);

/// Returns the graph with the matching parameters frozen: they keep their initial values, and have
/// no gradient. `norms`: a batch norm whose parameters are all frozen also keeps its running
/// statistics, and normalises with them. Throws Exit::usage if nothing is left to train.
Graph with_frozen(Graph, const NamePatterns&, bool norms);

}  // namespace convoy
