// What the options of a training mean once its data and its ranks are known.
#pragma once
#include "cli/train_options.h"
#include "model/models.h"
#include "train/trainer.h"

namespace convoy {

/// Throws Exit::usage if the images of data set `dir` differ in size.
void refuse_ragged(const SplitInfo& data, const std::string& dir);
/// The model that the options ask for, for images like these. Throws as refuse_ragged.
ModelOptions model_of(const TrainOptions&, const SplitInfo& data);
/// Throws Exit::usage where options do not fit the data or the ranks.
TrainSetup setup_of(const TrainOptions&, const SplitInfo& data, int ranks, std::optional<Clock::time_point> deadline);

BackendOptions backend_options_of(const TrainOptions&);
OptimizerSpec optimizer_of(const TrainOptions&);
Schedule schedule_of(const TrainOptions&, int64_t global_batch);
Augment augment_of(const TrainOptions&);
/// The data's own mean and deviation, unless the options give others. Throws Exit::usage if these
/// are not one a channel.
Normalisation normalisation_of(const TrainOptions&, const SplitInfo& data);

}  // namespace convoy
