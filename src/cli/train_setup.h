// Resolves the options of a training once its data and its ranks are known.
#pragma once
#include "cli/train_options.h"
#include "model/models.h"
#include "train/training_programs.h"

namespace convoy {

/// Sets the fields that follow from several options, or have another unit than their option.
/// Resolves --lr-schedule auto and --warmup-epochs auto, which depend on whether a rate is given.
void derive_fields(TrainOptions&);

/// The model that the options ask for, for images like these.
ModelOptions model_of(const TrainOptions&, const SplitInfo& data);
/// Returns the graphs for other image sizes that come before `graph`, the model itself. Throws as
/// build_model.
std::vector<EarlierGraph> earlier_graphs(const TrainOptions&, const SplitInfo& data, const Graph& graph,
                                         const std::function<Graph(const ModelOptions&)>& build);
/// Samples a step of all ranks. Throws Exit::usage where --virtual-ranks does not fit.
int64_t asked_batch(const TrainOptions&, int ranks);
/// Throws Exit::usage where options do not fit the data or the ranks.
TrainSetup setup_of(const TrainOptions&, const SplitInfo& data, int ranks, std::optional<Clock::time_point> deadline);

/// `images`: of the training split.
Schedule schedule_of(const TrainOptions&, int64_t global_batch, int64_t images);

// train_images.cpp: what the model sees of an image.
/// Throws Exit::usage where options do not fit these images.
void check_images(const TrainOptions&, const SplitInfo& data);
Augment augment_of(const TrainOptions&, const SplitInfo& data);
/// Mean and deviation are the data's own, unless the options give others. Throws Exit::usage if
/// these are not one a channel.
Preprocessing preprocessing_of(const TrainOptions&, const SplitInfo& data);

}  // namespace convoy
