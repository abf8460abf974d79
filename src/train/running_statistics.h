// The running statistics of batch norms, which each logical rank has separately. All of them are
// saved, and averaged before an evaluation.
#pragma once
#include <vector>

#include "comm/comm.h"
#include "plan/split.h"
#include "train/state.h"

namespace convoy {

/// Returns the mean over rows of [n][count] values, added in double in the order of rows.
std::vector<float> mean_of_rows(const std::vector<float>& rows, size_t count);
/// Collective. Returns the running statistics of all logical ranks, in order, on rank 0.
std::vector<float> gather_running(Comm&, TensorMemory&, const State&, const BatchSplit&);
/// Collective. Restores the running statistics of all logical ranks. Rank 0 passes `all`, those of
/// `ranks` logical ranks. If that number has changed, each gets the mean of `all`.
void restore_running(Comm&, TensorMemory&, const State&, const BatchSplit&, std::vector<float> all, int64_t ranks);
/// Collective. Replaces the running statistics of all logical ranks by their mean. `exact`: with
/// the same bits on any number of ranks.
void average_running(Comm&, TensorMemory&, const State&, const BatchSplit&, bool exact);

}  // namespace convoy
