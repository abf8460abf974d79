// OpenMPI's ranks of a node send through files /dev/shm/vader_segment.* (4 MiB each; sm_segment.*
// since OpenMPI 5). It removes them at its end. After a kill -9 of mpirun or the loss of a node
// they would take memory for ever.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// The segments that this process maps and that still have a name, each once.
std::vector<std::string> mapped_segments();

/// Takes the names away: the files last as long as processes map them. Only once every rank of the
/// node maps them all.
void remove_names(const std::vector<std::string>& segments);

/// Gives each name back, of an empty file: OpenMPI complains in MPI_Finalize about a name that is
/// gone.
void restore_names(const std::vector<std::string>& segments);

}  // namespace convoy
