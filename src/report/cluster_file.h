// Reads files that describe clusters: jobs/site/*.cluster. jobs/CLUSTER_FILES.md lists their keys.
#pragma once
#include <string>

#include "plan/cluster.h"

namespace convoy {

/// Reads lines `key = value`; `#` starts a comment. Paths in the file are relative to it. Throws
/// Exit::bad_input with file and line for an unknown key, a value that is not allowed, or a missing
/// key.
Cluster read_cluster(const std::string& path);

/// Throws Exit::usage if `nodes` > 1 and the cluster has no network.
void require_network(const Cluster&, int nodes);

}  // namespace convoy
