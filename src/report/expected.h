// Predicts the speed that a measured run should have reached, to judge whether it is normal.
#pragma once
#include "model/models.h"
#include "plan/step_fit.h"
#include "report/scaling.h"

namespace convoy {

/// The properties of a benchmark that its expected speed depends on.
struct RunOnCluster {
    ModelOptions model;
    int64_t batch = 0;  ///< images per rank
    int nodes = 1, ranks = 1;
    double compute_seconds = 0;  ///< per step, without all-reduces; includes waiting for data
    size_t bucket_bytes = 0;
};

/// Predicts the step from the measured compute time and the all-reduces that the cluster should
/// reach.
StepPrediction expected_step(const RunOnCluster&, const Cluster&);

/// Returns a model with its usual images: ImageNet's for a resnet, as in published figures.
ModelOptions usual_model(const std::string& name);
/// Returns usual_factors() with the step time of a cluster file. Scales its time per image in
/// proportion to FLOPs, for images that take `flops_per_image`.
StepModel model_of_known_step(const KnownStep&, double flops_per_image);

/// Returns true if the cluster file determines the time of all-reduces on this device. On CPUs it
/// must contain measured ones, because the model has NCCL's constants, not MPI's.
bool knows_sums(const Cluster&, const std::string& device_kind, int nodes);

/// Sets `expected` and `limit` of each table's cells if knows_sums(). The prediction starts from
/// the table's measured cell with the fewest ranks, whose fields are not set.
void add_expected(std::vector<ScalingCell>&, const Cluster&);

}  // namespace convoy
