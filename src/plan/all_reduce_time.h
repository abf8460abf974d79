// How long an all-reduce takes: NCCL's own cost model, with what was measured where there is
// something.
#pragma once
#include "plan/cluster.h"

namespace convoy {

struct SumTime {
    double seconds = 0;
    const char* algorithm = "none";  ///< ring, tree, switch (NVLS), hierarchical
    const char* protocol = "";       ///< LL, LL128, Simple
    bool measured = false;           ///< by Cluster::sums: of one node for one, of several for several
};

/// The least over algorithms and protocols for `bytes` on nodes x ranks_per_node GPUs; 0 on one.
///
/// The constants and rules of ring and tree are those by which NCCL chooses (src/graph/tuning.cc,
/// NVIDIA/nccl at 5067397c); only the depth of trees is not rounded down to whole levels. LL128
/// needs NVLink and, between nodes, GPUs that reach their adapters without the CPU, which
/// Cluster::ll128 says. Sums in switches: 25 us and the measured bandwidth; over nodes they are
/// bounded by the network. Measured sums are interpolated in the logarithms of size and time; the
/// model carries them to other numbers of ranks. Those of one node say nothing about several.
SumTime all_reduce_time(const Cluster&, double bytes, int nodes, int ranks_per_node);

}  // namespace convoy
