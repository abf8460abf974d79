// Which GPU a rank takes, and the reason where it cannot have one. The decisions are pure functions
// of what was found, so that they are tested without a GPU.
#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"

namespace convoy::cuda {

/// What the driver says; no field needs a GPU to exist.
struct Found {
    /// newest CUDA version the driver can run, 1000 * major + 10 * minor; 0: no driver
    int driver = 0;
    int runtime = 0;                 ///< the CUDA version this was built with
    std::string error;               ///< why devices could not be counted; empty if they could
    std::string visible;             ///< CUDA_VISIBLE_DEVICES, "(unset)" if it is not set
    std::vector<int> capabilities;   ///< of each visible device, 10 * major + minor
    std::vector<int> architectures;  ///< that kernels were compiled for, ascending; of the last there is PTX too
};
Found find_devices();

/// Why Convoy cannot run on any device; empty if it can.
std::string reason_without_device(const Found&);
/// Whether kernels compiled for `architectures` run on a device of this capability.
bool runs_on(int capability, const std::vector<int>& architectures);

/// The visible device of the local_rank-th rank of a node. `chosen` is --devices, empty for all.
/// Where each rank sees one device only it is that one. Throws Exit::usage.
int device_of_rank(int local_rank, int local_size, int visible, const std::vector<int>& chosen, bool share);

struct DeviceInfo {
    int index = 0, capability = 0;
    std::string name, uuid, bus;
    size_t memory = 0;
    int multiprocessors = 0;
    size_t l2 = 0;  ///< bytes of the cache that all share
};
DeviceInfo describe_device(int index);
/// One line a rank, "host uuid", in rank order: why the first pair of ranks that shares a device
/// cannot; empty if none does.
std::string shared_device(const std::vector<std::string>& ranks);

}  // namespace convoy::cuda
