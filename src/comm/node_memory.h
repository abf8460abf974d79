// The memory that a rank may take, when the ranks of its node share limits.
#pragma once
#include "base/memory_budget.h"
#include "comm/comm.h"

namespace convoy {

/// Returns the current budget of this rank. Collective over the ranks of a node.
MemoryBudget memory_budget(Comm&);

}  // namespace convoy
