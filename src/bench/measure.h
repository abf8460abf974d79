// Measures training steps: a training whose first steps are left out, and the rest timed. The time
// by class of operations is taken in a short second phase, so that the main figure is undisturbed.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/result.h"
#include "train/recorder.h"

namespace convoy {

/// How many steps, one phase after the other.
struct BenchSteps {
    int64_t warmup = 0, measured = 0;
    int64_t traced = 0;    ///< of which the median becomes the timeline
    int64_t profiled = 0;  ///< operation by operation
    bool frozen = false;   ///< steps as they are once a whitening bias is not trained any more
};

/// What one rank has of everything; `ranks` and `parts` are of all of them.
struct Measured {
    BenchResult result;
    std::vector<TrainRow> rows;
    std::vector<RankRow> ranks;
    std::vector<RankEpochRow> parts;
    double seconds = 0;    ///< from the end of the warm-up to the last step
    int64_t steps = 0;     ///< done in these seconds
    std::string timeline;  ///< JSON, on rank 0
};

/// `setup` for a training of the steps that are warmed up and measured, as long as they are. All of
/// them train the same parameters, but for the first if `frozen`.
void set_length(TrainSetup& setup, const SplitInfo&, const BenchSteps&);

/// Collective. `known` is what the caller knows of the result: names and versions. `on_failure` is
/// called if this rank fails, before the job aborts.
Measured measure_steps(Comm&, Backend&, const Graph&, const DataSet&, const TrainSetup&, const BenchSteps&,
                       BenchResult known, const std::function<void(const Error&)>& on_failure);

}  // namespace convoy
