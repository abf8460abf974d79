// Checks before the first step: do the ranks see one another, and have they the same libraries and
// data? A job that fails then has not cost hours.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"

namespace convoy {

/// Fails with Exit::usage if the launcher started several processes that do not see one another:
/// each would train alone. Causes: mpirun and the program use different MPIs, srun lacks --mpi, or
/// torchrun is the launcher. RANK, WORLD_SIZE and MASTER_ADDR may be set, but must not contradict
/// MPI.
void check_world(Comm&);

/// (name, text) pairs that must be the same on every rank. Collective; fails with Exit::usage
/// naming the first difference.
void check_alike(Comm&, const std::vector<std::pair<std::string, std::string>>&);

}  // namespace convoy
