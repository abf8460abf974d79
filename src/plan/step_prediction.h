// Predicts the time of a training step on many ranks from its time on one rank. All-reduces overlap
// with backward, and all ranks wait for the slowest one.
#pragma once
#include <map>

#include "plan/all_reduce_time.h"
#include "plan/ready_gradients.h"

namespace convoy {

/// A factor of the model with its usual bounds. low == high means that it was measured.
struct Factor {
    double value, low, high;
    bool measured() const { return low == high; }
};

/// Seconds per step on one rank, as a function of the batch.
struct StepTimes {
    double fixed = 0, per_sample = 0;
    std::map<int64_t, double> measured{};  ///< seconds by batch; they take precedence over the line

    double at(int64_t batch) const;
};

/// Parameters of the model; src/README.md has the formulas.
struct StepModel {
    StepTimes alone;
    Factor host_loss;               ///< h: relative slowdown of a rank on a node with 8 ranks
    Factor interference;            ///< kappa: compute seconds lost per second of an overlapping all-reduce
    Factor spread;                  ///< s: standard deviation of the ranks' times over their mean
    double network_share = 1;       ///< share of the network's bandwidth that the measured runs reached
    bool network_measured = false;  ///< true if a run on several nodes was measured
    int ranks_of_times = 1;         ///< ranks per node when `alone` was measured; `alone` includes their loss
};

struct StepWork {
    std::vector<ReadyGradient> gradients;
    int64_t batch = 1;        ///< images per rank
    int gradient_bytes = 4;   ///< per element
    size_t bucket_bytes = 0;  ///< 0: usual_bucket_bytes()
};

enum class Limit : uint8_t { compute, fixed, node, communication, noise, input };
const char* name_of(Limit);

/// The all-reduce of a bucket. `ready` and `end` are seconds since the step began.
struct PredictedAllReduce {
    double bytes, ready, end;
    AllReduceTime time;
};

/// The terms of a predicted step; times are in seconds per step.
struct StepPrediction {
    int nodes = 1, ranks = 1;
    double compute = 0;       ///< the part of one rank's time that grows with the batch
    double fixed = 0;         ///< the part of one rank's time that is constant
    double node_loss = 0;     ///< slowdown because ranks share a node (h)
    double interference = 0;  ///< slowdown because all-reduces overlap with compute (kappa)
    double noise = 0;         ///< waiting for the slowest rank
    double all_reduces = 0;   ///< all all-reduces together
    double exposed = 0;       ///< part of the last all-reduce after the end of backward
    double input = 0;         ///< reading a node's images
    double step = 0;
    Limit limit = Limit::compute;  ///< the largest term; exposed and interference count as one
    double images_per_second = 0;  ///< of all ranks
    std::vector<PredictedAllReduce> buckets{};
};

/// Predicts a step on `ranks` ranks, which fill one node after the other.
StepPrediction predict_step(const StepModel&, const StepWork&, const Cluster&, int ranks);
/// Like predict_step(), but sets every factor that was not measured to its worst or best bound.
StepPrediction worst_step(const StepModel&, const StepWork&, const Cluster&, int ranks);
StepPrediction best_step(const StepModel&, const StepWork&, const Cluster&, int ranks);

/// Returns the bucket size with the shortest step: a power of two from 1 to 256 MiB, or 4 GiB,
/// which is one bucket for all gradients. Returns the default size if no other size saves a
/// thousandth of the exposed and interference time.
size_t best_bucket_bytes(const StepModel&, StepWork, const Cluster&, int ranks);

/// Returns the default size of gradient buckets (--bucket-mib overrides it). It is 16 MiB if NVLink
/// connects the GPUs of one node or verbs connect several nodes, else 4 MiB. Keep it equal to
/// bucket_bytes_of() in backend/gpu/all_reduces.h.
size_t usual_bucket_bytes(const Cluster&, int nodes);

/// Returns the mean of the largest of n standard normal numbers, by Blom's formula.
double expected_largest(int n);

}  // namespace convoy
