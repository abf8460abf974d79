// The step model from measured steps: of one rank, of a node, of several nodes, or what there is of
// these.
#pragma once
#include <cmath>
#include <string>

#include "plan/step_prediction.h"

namespace convoy {

struct MeasuredStep {
    int nodes = 1, ranks = 1;
    int64_t batch = 1;     ///< a rank
    double seconds = 0;    ///< of a step
    double spread = NAN;   ///< of the ranks' own times: standard deviation over mean; NaN: not known
    std::string source{};  ///< for messages
};

struct FittedStep {
    StepModel model;
    std::vector<std::string> assumed;  ///< what was not measured, and is taken instead: a line each
};

/// - Times of one rank: a line through the measurements on the fewest ranks. If those are several
///   ranks and have one batch: through all, of which the model takes off what sums cost. Of one
///   batch: in proportion to it.
/// - Loss of a full node: from runs on several ranks of one node.
/// - Interference, and if even 1 does not explain it, the network's share: from runs on several
///   nodes.
/// Medians where several say something. `work` has the gradients. Throws Exit::usage without a
/// measurement.
FittedStep fit_step(const std::vector<MeasuredStep>&, const StepWork& work, const Cluster&);

/// Factors that nobody measured, with their bounds: medians and 10 to 90 % of DLPerf's runs (`make
/// validate-predict` prints them). Interference is that of f32: with AMP the network explains more
/// than it can. The spread of ranks is assumed.
StepModel usual_factors();

}  // namespace convoy
