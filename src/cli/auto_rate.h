// The rules of --lr auto and --warmup-epochs auto. input/TRAINING.md gives the sources of the
// numbers. A resumed run takes the numbers that it recorded, also if these rules change.
#pragma once
#include <string>

#include "cli/train_options.h"

namespace convoy {

struct AutoRate {
    double rate;
    std::string why;  ///< " (--lr auto: 0.1 at a batch of 256, in proportion)"
};
/// Returns the rate of a run with this global batch and number of training images. sgd: 0.1 at a
/// batch of 256 (airbench94: 0.25), in proportion. adam: 0.001, and muon: 0.02, at a batch of 32,
/// with its square root. A batch counts up to a sixteenth of the images, and to 8,192. With sgd a
/// deep model gets less in a short run: of under 1,000 steps, or 2,000 for bottlenecks, the root of
/// the share.
AutoRate auto_rate(const TrainOptions&, int64_t global_batch, int64_t images);

/// 5 epochs, but at most 0.3 of those that the run has.
double auto_warmup_epochs(const TrainOptions&, int64_t global_batch, int64_t images);

/// Takes rate, schedule and warm-up from what a run recorded that these options continue, where
/// they are left to auto. Takes nothing of a schedule or unit that the options had to name.
void take_recorded_rates(const std::string& configuration, ParsedOptions&);

/// Puts the numbers of `schedule` in the place of auto.
void record_rates(const Schedule&, ConfigPairs& resolved);

}  // namespace convoy
