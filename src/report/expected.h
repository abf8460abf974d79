// What a measured run should have reached, beside what it did: is this normal?
#pragma once
#include "model/models.h"
#include "plan/step_prediction.h"
#include "report/scaling.h"

namespace convoy {

/// A benchmark, as far as its expected speed depends on it.
struct RunOnCluster {
    ModelOptions model;
    int64_t batch = 0;  ///< a rank
    int nodes = 1, ranks = 1;
    double compute_seconds = 0;  ///< of a step, without sums; with waiting for data, which is not the cluster's
    size_t bucket_bytes = 0;
};

/// The step if the ranks compute as long as they did, and the sums take what the cluster should
/// give.
StepPrediction expected_step(const RunOnCluster&, const Cluster&);

/// Whether the file says how long these sums take: NCCL's constants are not those of MPI.
bool knows_sums(const Cluster&, const std::string& device_kind, int nodes);

/// Sets what is expected of each table's cells from the measured cell with the fewest ranks, where
/// knows_sums().
void add_expected(std::vector<ScalingCell>&, const Cluster&);

}  // namespace convoy
