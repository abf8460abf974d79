// The memory that a rank may take, where its node's ranks share it.
#pragma once
#include "base/memory_budget.h"
#include "comm/comm.h"

namespace convoy {

/// Of this rank, as the node is now; collective over the ranks of a node.
MemoryBudget memory_budget(Comm&);

}  // namespace convoy
