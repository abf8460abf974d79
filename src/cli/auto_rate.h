// The rules of --lr auto and --warmup-epochs auto. input/TRAINING.md gives the sources of the
// numbers. A resumed run keeps the numbers that it recorded, even if these rules change.
#pragma once
#include <string>

#include "cli/train_options.h"

namespace convoy {

struct AutoRate {
    double rate;
    std::string why;  ///< " (--lr auto: 0.1 at a batch of 256, in proportion)"
};
/// Returns the rate of a run with this global batch and number of training images.
/// - sgd: 0.1 (airbench94: 0.25) at a batch of 256 and a momentum of 0.9, in proportion to the
///   batch and to 1 - momentum.
/// - adam: 0.001 at a batch of 32, in proportion to the square root of the batch; muon: 0.02
///   likewise.
/// - A batch counts as at most a sixteenth of the images, and as at most 8,192.
/// - sgd, deep models: a run of under 1,000 steps (with bottlenecks 2,000) has a lower rate. The
///   factor is the square root of steps / 1,000 (steps / 2,000).
AutoRate auto_rate(const TrainOptions&, int64_t global_batch, int64_t images);

/// Returns 5 epochs, or 0.3 of the run's epochs if that is less.
double auto_warmup_epochs(const TrainOptions&, int64_t global_batch, int64_t images);

/// Replaces rate, schedule and warm-up that are `auto` by those that the continued run recorded.
/// Takes nothing if --lr is given, or if the run had --lr-unit kilostep. Takes nothing either if
/// the schedule is `auto` and the recorded one is neither constant nor cosine.
void take_recorded_rates(const std::string& configuration, ParsedOptions&);

/// Replaces `auto` by the numbers of `schedule`.
void record_rates(const Schedule&, ConfigPairs& resolved);

}  // namespace convoy
