// Reads files that describe clusters: jobs/site/*.cluster. jobs/CLUSTER_FILES.md lists their keys.
#pragma once
#include <string>

#include "plan/cluster.h"

namespace convoy {

class Comm;

/// Reads lines `key = value`; `#` starts a comment. Paths in the file are relative to it. Throws
/// Exit::bad_input with file and line for an unknown key, a value that is not allowed, or a missing
/// key.
Cluster read_cluster(const std::string& path);

/// The ranks of a job on its hosts.
struct RankLayout {
    int ranks = 1, hosts = 1;
    int ranks_per_host = 1;  ///< of the host with the most

    bool even() const { return hosts * ranks_per_host == ranks; }
};
/// Collective. Returns the layout of this job's ranks.
RankLayout layout_of(Comm&);
/// Reads the cluster file that `--cluster` names. Throws Exit::usage if it describes fewer hosts,
/// or fewer GPUs per node, than these ranks take, or if hosts have different numbers of ranks.
Cluster read_cluster_for(const std::string& path, const RankLayout&);

/// Throws Exit::usage if `nodes` > 1 and the cluster has no network.
void require_network(const Cluster&, int nodes);

}  // namespace convoy
