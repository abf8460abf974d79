// Times the launches of a training tape: one by one, or overlapping as in training. The training
// loop itself does not time them.
#pragma once
#include <vector>

#include "comm/comm.h"
#include "train/training_programs.h"

namespace convoy {

/// The time of one launch, run separately.
struct LaunchTime {
    LaunchId launch;
    double seconds;
};

// Both repeat the first step of a training, because the schedule and the sample order have no
// further steps. They change the weights, so call them after the training.
/// Collective. Times each launch separately, and returns this rank's medians over `steps` optimizer
/// steps, in the order of the tape.
std::vector<LaunchTime> profile(Comm&, Backend&, TrainingPrograms&, int64_t steps);
/// Collective. Traces `steps` optimizer steps that overlap as in training. Returns this rank's
/// trace of the step whose time is the median on rank 0. Seconds count from a moment that all ranks
/// share.
std::vector<Span> timeline(Comm&, Backend&, TrainingPrograms&, int64_t steps);

}  // namespace convoy
