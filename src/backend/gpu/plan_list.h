// Lists the cuDNN plans that a training may ask for: the alternatives between which select()
// chooses.
#pragma once
#include <string>
#include <vector>

#include "backend/gpu/algorithms.h"

namespace convoy::cuda {

/// Returns the time stored under a key of PlanSpec or KernelSpec, if it is known.
using KnownTimes = std::function<std::optional<float>(const std::string& key)>;
/// Returns each plan of unknown time that select() may ask for, about in the order in which it
/// asks.
std::vector<PlanSpec> expected_plans(const ProgramShape&, const AlgorithmOptions&, const KnownTimes&);

/// A plan that a training step with this rank's batch may ask for, named after the first operation
/// that asks.
struct NamedPlan {
    std::string name;
    PlanSpec spec;
    int uses = 1;
};
std::vector<NamedPlan> plans_of(const Graph&, int batch, const AlgorithmOptions&);

/// Returns the first `most` plans of each family, one family after the other.
std::vector<PlanSpec> first_of_families(const std::vector<NamedPlan>&, size_t most);

/// The number of layers with both gradients, and the names of those that run them side by side.
struct GradientPairs {
    std::vector<std::string> side_by_side;
    int all = 0;
};
GradientPairs gradient_pairs(const Graph&, int batch, const AlgorithmOptions&);

}  // namespace convoy::cuda
