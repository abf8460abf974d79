// What is checked before the first step, so that a job does not fail hours later: one world of ranks with the same libraries
// and the same data, and room for what the run will write.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"

namespace convoy {

/// Fails with Exit::usage if the launcher started several processes that do not see one another (mpirun and the program use
/// different MPIs, or srun lacks --mpi): each would train alone.
void check_world(Comm&);

/// (name, text) pairs that must be the same on every rank. Collective; fails with Exit::usage naming the first difference.
void check_alike(Comm&, const std::vector<std::pair<std::string, std::string>>&);

/// Fails with Exit::io if `folder` (or the nearest folder above it that exists) cannot be written or has less than `bytes` free.
void check_room(const std::string& folder, size_t bytes, const std::string& what_for);

}  // namespace convoy
