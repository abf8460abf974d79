// The device of a rank when it works alone, or in a group of ranks.
#pragma once
#include <memory>

#include "backend/cuda_queries.h"
#include "comm/comm.h"

namespace convoy {

/// The device of this rank. The rank keeps it in each group of ranks.
struct DeviceChoice {
    std::string device = "auto";  ///< as --device
    int threads = 1;              ///< CPU threads, unless backend_for() gets another number
    int gpu = 0;                  ///< index among the visible GPUs
    bool share = false;           ///< several ranks may use one GPU
};

/// Returns a backend for this rank in `group`. `threads`: 0 stands for DeviceChoice::threads.
/// `invariant`: see BackendOptions. Collective over the group.
std::unique_ptr<Backend> backend_for(Comm& group, const DeviceChoice&, bool invariant, int threads = 0);

}  // namespace convoy
