// MPI handles, for code that may include mpi.h: comm/ itself and the backends.
#pragma once
#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "base/own_folder.h"
#include "comm/comm.h"
#include "comm/segments.h"

namespace convoy {

struct Comm::Native {
    MPI_Comm world = MPI_COMM_NULL;      ///< host collectives
    MPI_Comm gradients = MPI_COMM_NULL;  ///< non-blocking all-reduces, apart from all other collectives
    MPI_Comm node = MPI_COMM_NULL;       ///< the ranks of this node
    MPI_Comm leaders = MPI_COMM_NULL;    ///< local rank 0 of each node; null on other ranks
    int rank = 0, size = 1, local_rank = 0, local_size = 1;
    std::string host;
    std::shared_ptr<SegmentFolder> segment_folder;  ///< made before MPI starts
    std::optional<OwnFolder> folder;                ///< of OpenMPI 5 in a process without a launcher
    std::vector<std::string> segments;              ///< removed names of this node's segments; on local rank 0
};

/// Broadcasts any number of bytes, even more than an int can count.
void broadcast_bytes(void* data, size_t bytes, int from, MPI_Comm comm);

}  // namespace convoy
