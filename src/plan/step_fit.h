// Fits the step model to measured steps on one rank, one node, several nodes, or any of these.
#pragma once
#include <cmath>
#include <string>

#include "plan/step_prediction.h"

namespace convoy {

struct MeasuredStep {
    int nodes = 1, ranks = 1;
    int64_t batch = 1;     ///< images per rank
    double seconds = 0;    ///< per step
    double spread = NAN;   ///< standard deviation of the ranks' own times over their mean; NaN: not known
    std::string source{};  ///< for messages
};

struct FittedStep {
    StepModel model;
    std::vector<std::string> assumed;  ///< assumptions in place of missing measurements, one line each
};

/// Fits the model to these measurements. If several of them determine a value, it is their median.
/// - Times of one rank: a line through the measurements on one rank. Without these, the line goes
///   through the measurements on the smallest number of ranks. If they have only one batch size, it
///   goes through all measurements. The predicted cost of all-reduces is subtracted first. If there
///   is only one batch size in all, time is proportional to the batch.
/// - Loss of a full node: from runs on several ranks of one node.
/// - Interference: from runs on several nodes. If even an interference of 1 does not explain their
///   time, the network's share is fitted too.
/// `work` describes the gradients. Throws Exit::usage if there is no measurement.
FittedStep fit_step(const std::vector<MeasuredStep>&, const StepWork& work, const Cluster&);

/// Returns the default factors with their bounds: the medians and the 10th to 90th percentiles of
/// DLPerf's runs (`make validate-predict` prints them). Interference is from the f32 runs
/// only, because runs with AMP lose more time than interference explains. The spread of ranks is an
/// assumption.
StepModel usual_factors();

}  // namespace convoy
