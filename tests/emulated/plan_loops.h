// Replacement for cuDNN's computations on the emulated device.
#pragma once
#include <map>

#include "backend/gpu/plan_spec.h"

namespace convoy::test {

/// Computes the spec with the operands of its kind. Rounds where cuDNN stores, and sums in float,
/// statistics in double.
void run_by_loops(const cuda::PlanSpec&, const std::map<cuda::Slot, void*>& operands);

}  // namespace convoy::test
