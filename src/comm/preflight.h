// Checks before the first step: the ranks must see one another and have the same libraries and
// data. A job that fails this early has not wasted hours.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"

namespace convoy {

/// Throws Exit::usage if the launcher started several processes that do not see one another,
/// because each would train alone. Causes: mpirun and the program use different MPIs, srun lacks
/// --mpi, or torchrun is the launcher. RANK, WORLD_SIZE and MASTER_ADDR may be set, but must not
/// contradict MPI.
void check_world(Comm&);

/// Checks that (name, text) pairs are equal on all ranks. Throws Exit::usage naming the first
/// difference. Collective.
void check_alike(Comm&, const std::vector<std::pair<std::string, std::string>>&);

}  // namespace convoy
