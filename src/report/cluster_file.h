// Files that say what machines are like: jobs/site/*.cluster. jobs/README.md has the keys.
#pragma once
#include <string>

#include "plan/cluster.h"

namespace convoy {

/// Lines `key = value`; `#` starts a comment. Paths in it are relative to the file. Throws
/// Exit::bad_input with file and line: an unknown key, a value that is not allowed, a key that is
/// missing.
Cluster read_cluster(const std::string& path);

/// Throws Exit::usage for several nodes of a cluster that has no adapters.
void require_network(const Cluster&, int nodes);

}  // namespace convoy
