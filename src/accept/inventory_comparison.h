// Compares how nodes and GPUs are equipped and set up, and names those that differ from the
// majority.
#pragma once
#include <string>
#include <vector>

#include "accept/verdict.h"
#include "comm/host.h"

namespace convoy {

struct DeviceInventory {
    int rank = 0;
    Facts facts{};  ///< "gpu", and those of Backend::health(); empty for a CPU
};

struct NodeInventory {
    std::string host;
    Facts facts{};  ///< node_facts(), versions of libraries, and "other processes"
    int ranks = 1;
    std::vector<DeviceInventory> devices{};
};

/// Judges each fact by rule_for(), faults_of_node() and faults_of_gpu(). If nodes differ, blames
/// those with the value that is known to be worse, or else the minority. A tie, such as two nodes
/// with different drivers, only warns, unless it is about a failure whose worse value is known.
/// `details` has a line per finding, the worst first, then one per node and GPU.
LevelResult compare_inventories(const std::vector<NodeInventory>&);

}  // namespace convoy
