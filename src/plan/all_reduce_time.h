// Predicts how long an all-reduce takes: NCCL's own cost model, corrected by measured all-reduces
// where the cluster file has any.
#pragma once
#include <vector>

#include "plan/cluster.h"

namespace convoy {

struct AllReduceTime {
    double seconds = 0;
    const char* algorithm = "none";  ///< ring, tree, switch (NVLS), hierarchical
    const char* protocol = "";       ///< LL, LL128, Simple
    bool measured = false;           ///< true if Cluster::all_reduces corrected the model
};

/// Returns the time of the fastest algorithm and protocol for an all-reduce of `bytes` on nodes x
/// ranks_per_node GPUs; 0 seconds on one GPU.
///
/// Ring and tree have the constants and rules by which NCCL chooses (src/graph/tuning.cc,
/// NVIDIA/nccl at 5067397c). One rule differs: the depth of trees is not rounded down to whole
/// levels. LL128 needs NVLink. Between nodes it also needs GPUs that reach their adapters without
/// the CPU (Cluster::ll128). An all-reduce in the switch takes 25 us plus the transfer at
/// switch_bandwidth; over several nodes the network limits it too.
///
/// Measured times are interpolated in the logarithms of size and time; the model extrapolates them
/// to other numbers of ranks. Times from one node correct only predictions for one node, and times
/// from several nodes only those for several.
AllReduceTime all_reduce_time(const Cluster&, double bytes, int nodes, int ranks_per_node);

/// Like all_reduce_time(), for many sizes: it looks up the measurements once. The cluster must
/// outlive it.
class AllReduceTimes {
public:
    AllReduceTimes(const Cluster&, int nodes, int ranks_per_node);
    AllReduceTime of(double bytes) const;

private:
    const Cluster& cluster_;
    const int nodes_, per_node_;
    std::vector<MeasuredAllReduce> measured_;  ///< the nearest measurements, sorted by size
};

}  // namespace convoy
