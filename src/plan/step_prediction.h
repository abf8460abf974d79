// What a training step takes on a number of ranks, from what it takes on one: the sums over ranks
// overlap with backward, and the slowest rank is waited for.
#pragma once
#include <map>

#include "plan/all_reduce_time.h"
#include "plan/ready_gradients.h"

namespace convoy {

/// A factor of the model, and between which bounds it is if nobody measured it (low = high: it was
/// measured).
struct Factor {
    double value, low, high;
    bool measured() const { return low == high; }
};

/// Seconds of a step on one rank, by its batch.
struct StepTimes {
    double fixed = 0, per_sample = 0;
    std::map<int64_t, double> measured{};  ///< by batch; these are taken as they are

    double at(int64_t batch) const;
};

/// src/README.md explains them.
struct StepModel {
    StepTimes alone;
    Factor host_loss;               ///< h: of a rank whose node is full of 8 ranks, to one alone
    Factor interference;            ///< kappa: of compute, while a sum overlaps with it
    Factor spread;                  ///< s: of the times of ranks, a standard deviation
    double network_share = 1;       ///< of the cluster's bandwidth, that runs on several nodes had
    bool network_measured = false;  ///< by runs on several nodes, or by sums over them
    int ranks_of_times = 1;         ///< `alone` was measured on so many ranks of a node, and has their loss
};

struct StepWork {
    std::vector<ReadyGradient> gradients;
    int64_t batch = 1;        ///< a rank
    int gradient_bytes = 4;   ///< of an element
    size_t bucket_bytes = 0;  ///< 0: usual_bucket_bytes()
};

enum class Limit : uint8_t { compute, fixed, node, communication, noise, input };
const char* name_of(Limit);

/// The sum of a bucket. Moments are seconds from the step's beginning.
struct PredictedSum {
    double bytes, ready, end;
    SumTime time;
};

/// Times in seconds a step.
struct StepPrediction {
    int nodes = 1, ranks = 1;
    double compute = 0;       ///< of one rank alone: what grows with the batch
    double fixed = 0;         ///< of one rank alone: what does not
    double node_loss = 0;     ///< what ranks of a node cost one another (h)
    double interference = 0;  ///< by sums that overlap
    double noise = 0;         ///< waiting for the slowest rank
    double sums = 0;          ///< all of them
    double exposed = 0;       ///< their part after the end of backward
    double input = 0;         ///< reading the images of a node
    double step = 0;
    Limit limit = Limit::compute;  ///< the largest: of these, exposed and interference together
    double images_per_second = 0;  ///< of all ranks
    std::vector<PredictedSum> buckets{};
};

/// Ranks fill nodes; `ranks` up to ranks_per_node are on one.
StepPrediction predict_step(const StepModel&, const StepWork&, const Cluster&, int ranks);
/// With every factor that was not measured at its worst, or at its best.
StepPrediction worst_step(const StepModel&, const StepWork&, const Cluster&, int ranks);
StepPrediction best_step(const StepModel&, const StepWork&, const Cluster&, int ranks);

/// Of powers of two from 1 to 256 MiB and of one for all gradients: with which size the step is
/// shortest. The usual one if none is better by a thousandth of what sums cost.
size_t best_bucket_bytes(const StepModel&, StepWork, const Cluster&, int ranks);

/// Of gradient buckets, unless --bucket-mib says: 16 MiB where NVLink joins the GPUs of one node or
/// verbs several nodes, else 4. As bucket_bytes_of() in backend/gpu/sums.h.
size_t usual_bucket_bytes(const Cluster&, int nodes);

/// The mean of the largest of n standard normal numbers, by Blom's formula.
double expected_largest(int n);

}  // namespace convoy
