// Which plans a training may ask cuDNN for: the alternatives that its ways are decided between.
#pragma once
#include <string>
#include <vector>

#include "backend/gpu/plan_spec.h"

namespace convoy::cuda {

/// Every plan that a training step of this rank's batch may ask for, each once, with the operation
/// that asks first.
struct NamedPlan {
    std::string name;
    PlanSpec spec;
    int uses = 1;
};
std::vector<NamedPlan> plans_of(const Graph&, int batch, Precision);

}  // namespace convoy::cuda
