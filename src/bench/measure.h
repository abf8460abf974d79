// Times training steps after a warm-up. The time by class of operations is measured in a short
// second phase, so that it does not disturb the main figure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/result.h"
#include "run/recorder.h"

namespace convoy {

/// The number of steps in each phase, in order.
struct BenchSteps {
    int64_t warmup = 0, measured = 0;
    int64_t traced = 0;    ///< number of steps that are traced; the one with the median time becomes the timeline
    int64_t profiled = 0;  ///< timed operation by operation
    bool frozen = false;   ///< measure steps in which the whitening bias is no longer trained
};

/// The measurements of this rank. `ranks` and `parts` hold those of all ranks.
struct Measured {
    BenchResult result;
    std::vector<TrainRow> rows;
    std::vector<RankRow> ranks;
    std::vector<RankEpochRow> parts;
    double seconds = 0;    ///< from the end of the warm-up to the last step
    int64_t steps = 0;     ///< number of steps in these seconds
    std::string timeline;  ///< JSON, on rank 0
};

/// Makes `setup` train exactly the warm-up and measured steps. If `frozen`, only the first step
/// trains the whitening bias, else all do.
void set_length(TrainSetup& setup, const SplitInfo&, const BenchSteps&);

/// Trains and measures. `known` holds the parts of the result that the caller knows, such as names
/// and versions. If this rank fails, calls `on_failure` before the job aborts. Collective.
Measured measure_steps(Comm&, Backend&, const Graph&, const DataSet&, const TrainSetup&, const BenchSteps&,
                       BenchResult known, const std::function<void(const Error&)>& on_failure);

}  // namespace convoy
