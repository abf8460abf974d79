// What the options of a training mean once its data and its ranks are known.
#pragma once
#include "cli/train_options.h"
#include "model/models.h"
#include "train/trainer.h"

namespace convoy {

/// The model that the options ask for, for images like these.
ModelOptions model_of(const TrainOptions&, const SplitInfo& data);
/// Throws Exit::usage where options do not fit the data or the ranks. Both are defined in train.cpp.
TrainSetup setup_of(const TrainOptions&, const SplitInfo& data, int ranks, std::optional<Clock::time_point> deadline);

}  // namespace convoy
