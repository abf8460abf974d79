// Resolves the options of a training once its data and its ranks are known.
#pragma once
#include "cli/train_options.h"
#include "model/models.h"
#include "train/training_programs.h"

namespace convoy {

/// Sets the fields that follow from several options, or have another unit than their option.
/// Resolves --lr-schedule auto. Sets --warmup-epochs auto to 0 if --lr is given or
/// --lr-schedule is linear.
void derive_fields(TrainOptions&);

/// Returns the samples per step of all ranks. Throws Exit::usage if --virtual-ranks does not fit.
int64_t asked_batch(const TrainOptions&, int ranks);
/// Resolves the options. Throws Exit::usage if they do not fit the data or the ranks.
TrainSetup setup_of(const TrainOptions&, const SplitInfo& data, int ranks, std::optional<Clock::time_point> deadline);

/// Returns the schedule. `images`: number of training images.
Schedule schedule_of(const TrainOptions&, int64_t global_batch, int64_t images);

// These are in train_images.cpp: they decide what the model sees of an image.
/// Throws Exit::usage if options do not fit these images.
void check_images(const TrainOptions&, const SplitInfo& data);
/// Returns the model that the options select, for images of this data set.
ModelOptions model_of(const TrainOptions&, const SplitInfo& data);
/// Returns the graphs for earlier image sizes, which are trained before `graph`. Throws what
/// build_model() throws.
std::vector<EarlierGraph> earlier_graphs(const TrainOptions&, const SplitInfo& data, const Graph& graph,
                                         const std::function<Graph(const ModelOptions&)>& build);
Augment augment_of(const TrainOptions&, const SplitInfo& data);
/// Returns mean, deviation and short side: as the options say, else by data and image size. Throws
/// Exit::usage unless a given list has one number per channel.
Preprocessing preprocessing_of(const TrainOptions&, const SplitInfo& data);

}  // namespace convoy
