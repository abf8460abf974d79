// Sums over the steps of an epoch, from their records.
#pragma once
#include <cstdint>

#include "ops/records.h"

namespace convoy {

/// Sums over images, from the steps that trained on them. A smaller batch counts less in a mean.
struct Tally {
    int64_t images = 0;
    double loss_sum = 0, correct = 0, top5 = 0;

    Tally& operator+=(const Tally&);
    // Averages; NaN if images == 0. Accuracies are fractions.
    double loss() const { return loss_sum / double(images); }
    double accuracy() const { return correct / double(images); }
    double top5_accuracy() const { return top5 / double(images); }
};
/// Return the tally of a step over the images of all ranks, or over those of this rank.
Tally tally_of_all(const StepRecord&);
Tally tally_of_own(const StepRecord&);

/// An epoch of training, or the part of it since the run was resumed within it.
struct EpochSummary {
    int64_t epoch = 0;  ///< from 1
    int64_t steps = 0;
    double seconds = 0;  ///< wall time, evaluation not included
    Tally all{}, own{};  ///< over all ranks, over this rank
    /// sums over the steps of this rank
    double step_seconds = 0, data_seconds = 0, comm_exposed_seconds = 0;

    void add(const StepRecord&);
    double images_per_second() const { return double(all.images) / seconds; }
};

}  // namespace convoy
