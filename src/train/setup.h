// The settings of a training: what the options of `convoy train` resolve to.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "plan/schedule.h"
#include "plan/split.h"
#include "train/evaluator.h"

namespace convoy {

/// The reaction to a step whose loss or gradients are not finite. Its update is always skipped.
enum class OnNan { stop, skip, rollback };

/// The reaction to ranks that disagree at an audited step.
enum class OnAudit { stop, warn };

struct TrainSetup {
    OptimizerSpec optimizer;
    Schedule schedule;
    double weight_decay = 0;
    bool decay_weights_only = false;
    /// true: weight_decay is the share of a weight that a step at the base learning rate removes,
    /// whatever the parameter's factors
    bool decoupled_decay = false;
    double norm_shift_rate = 1;                  ///< factor of the rate for batch norms' shifts
    double filter_rate = 1, linear_rate = 1;     ///< factors of the rate for convolution and linear weights
    std::map<std::string, double> rate_factors;  ///< further factors, by parameter name; others have 1
    /// Muon trains convolution weights, without decay; `optimizer` trains the rest
    bool muon = false;
    double whitening_bias_epochs = 0;  ///< epochs in which a whitening convolution's bias is trained; 0: all
    int64_t look_ahead = 0;            ///< steps between two look-ahead averages; 0: none
    double look_ahead_decay = 0.95;    ///< as in look_ahead_decays()
    Tta tta = Tta::plain;
    Augment augment;
    Preprocessing preprocessing;
    double epochs = 1;  ///< may end with a part of an epoch, in whole steps
    int64_t global_batch = 0, max_steps = 0, eval_every = 1, log_interval = 10;
    int64_t metrics_every = 0;  ///< steps between two rows of /train; 0: steps_between_rows() decides
    bool drop_last = false, sync_bn = false;
    int64_t logical_ranks = 0;  ///< train as this many ranks would, bit for bit; 0: the number of ranks
    size_t bucket_bytes = 0;    ///< least size of a gradient bucket; 0: DeviceFacts::bucket_bytes
    uint64_t seed = 1;
    OnNan on_nan = OnNan::stop;
    int64_t audit_every = 0;  ///< every N-th step is audited; 0: none is
    OnAudit on_audit = OnAudit::stop;
    // Intervals of checkpoints; 0: none. Checkpoints are also taken on request, and before a stop.
    int64_t checkpoint_steps = 0, checkpoint_epochs = 0;
    double checkpoint_seconds = 0;
    bool checkpoint_at_end = true;              ///< also at the end, and after each new best evaluation
    std::optional<Clock::time_point> deadline;  ///< checkpoint and stop before this

    BatchSplit batch_split(int ranks) const { return {logical_ranks > 0 ? logical_ranks : ranks, ranks}; }
};

/// Returns the function that gives the rule of each parameter.
ParamRules param_rules(const TrainSetup&, int64_t steps_per_epoch);

}  // namespace convoy
