// What the options of a training mean once its data and its ranks are known.
#pragma once
#include "cli/train_options.h"
#include "train/trainer.h"

namespace convoy {

/// Throws Exit::usage where options do not fit the data or the ranks. Defined in train.cpp.
TrainSetup setup_of(const TrainOptions&, const SplitInfo& data, int ranks, std::optional<Clock::time_point> deadline);

}  // namespace convoy
