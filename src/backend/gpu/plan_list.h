// Which plans a training may ask cuDNN for: the alternatives that its ways are decided between.
#pragma once
#include <string>
#include <vector>

#include "backend/gpu/ways.h"

namespace convoy::cuda {

/// What a time is by its key, PlanSpec's or KernelSpec's, if that is known.
using KnownTimes = std::function<std::optional<float>(const std::string& key)>;
/// Every plan whose time is not known and which decide() may ask for, each once, in about that
/// order.
std::vector<PlanSpec> expected_plans(const Outline&, const WayOptions&, const KnownTimes&);

/// Every plan that a training step of this rank's batch may ask for, whatever the times, each once,
/// with the operation that asks first.
struct NamedPlan {
    std::string name;
    PlanSpec spec;
    int uses = 1;
};
std::vector<NamedPlan> plans_of(const Graph&, int batch, const WayOptions&);

/// The layers that have both gradients.
struct GradientPairs {
    std::vector<std::string> side_by_side;
    int all = 0;
};
GradientPairs gradient_pairs(const Graph&, int batch, const WayOptions&);

}  // namespace convoy::cuda
