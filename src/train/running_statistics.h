// The running statistics of batch norms, which each logical rank has separately. All of them are
// saved, and averaged before an evaluation.
#pragma once
#include <vector>

#include "comm/comm.h"
#include "plan/split.h"
#include "train/state.h"

namespace convoy {

/// Collective. Returns the running statistics of all logical ranks, in order, on rank 0.
std::vector<float> gather_running(Comm&, TensorMemory&, const State&, const BatchSplit&);
/// Collective. Restores the running statistics of all logical ranks from those of `ranks` ranks on
/// rank 0. If their number has changed, all get the mean, computed like Comm::average().
void restore_running(Comm&, TensorMemory&, const State&, const BatchSplit&, std::vector<float> all, int64_t ranks);
/// Collective. Replaces the running statistics of all logical ranks by their mean. `exact`: with
/// the same bits on any number of ranks.
void average_running(Comm&, TensorMemory&, const State&, const BatchSplit&, bool exact);

}  // namespace convoy
