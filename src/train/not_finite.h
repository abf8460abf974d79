// Finds the first value of a step that is not finite.
#pragma once
#include <string>

#include "comm/comm.h"
#include "train/training_programs.h"

namespace convoy {

/// Collective, because running statistics differ between ranks. Returns the name of a weight or
/// running statistic that is not finite, with the rank if others have another one or none. Empty:
/// all are finite.
std::string weight_not_finite(Comm&, TensorMemory&, const State&);
/// Collective. Repeats step `step` (from 0) op by op, which is possible because its update was
/// skipped. Returns a text that names the first output on any rank that is not finite.
std::string output_not_finite(Comm&, Backend&, TrainingPrograms&, int64_t step);

}  // namespace convoy
