// What the emulated device computes in place of cuDNN.
#pragma once
#include <map>

#include "backend/gpu/plan_spec.h"

namespace convoy::test {

/// Does what the spec says, with the operands of its kind. Rounds where cuDNN stores, and adds up
/// in float, statistics in double.
void run_by_loops(const cuda::PlanSpec&, const std::map<cuda::Slot, void*>& operands);

}  // namespace convoy::test
