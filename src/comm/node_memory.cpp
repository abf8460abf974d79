// Two ranks share a limit if both report its group. Ranks of one job step do; ranks in separate
// control groups do not.
#include "comm/node_memory.h"

#include <algorithm>

namespace convoy {

MemoryBudget memory_budget(Comm& comm) {
    std::string mine = "\n";
    std::vector<MemoryBudget::Part> parts;
    for (MemoryLimit& limit : memory_limits()) {
        mine += limit.group + "\n";
        parts.push_back({std::move(limit)});
    }
    const std::vector<std::string> all = comm.gather_node(mine);
    for (MemoryBudget::Part& part : parts) {
        if (part.limit.group.empty()) continue;
        const std::string line = "\n" + part.limit.group + "\n";
        const auto named = [&](const std::string& groups) { return groups.find(line) != std::string::npos; };
        part.ranks = size_t(std::count_if(all.begin(), all.end(), named));
    }
    return MemoryBudget(std::move(parts), size_t(comm.local_size()), comm.host());
}

}  // namespace convoy
