// Chooses a rank's GPU, or says why it cannot have one. The decisions are pure functions of what
// was found, so that they can be tested without a GPU.
#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"

namespace convoy::cuda {

/// Facts about this machine's driver and GPUs, and about this build; valid without a GPU too.
struct Found {
    /// newest CUDA version the driver can run, 1000 * major + 10 * minor; 0: no driver
    int driver = 0;
    int runtime = 0;                 ///< CUDA version this was built with; numbered like `driver`
    size_t cudnn = 0;                ///< cudnnGetVersion()
    std::string error;               ///< why devices could not be counted; empty if they could
    std::string visible;             ///< CUDA_VISIBLE_DEVICES; "(unset)" if it is not set
    std::vector<int> capabilities;   ///< compute capability of each visible device, 10 * major + minor
    std::vector<int> architectures;  ///< for which kernels were compiled, ascending; the last one also as PTX
};
Found find_devices();

/// Returns true if nvcc of this CUDA version (as Found::runtime) compiles for a capability.
constexpr bool is_compiled_by(int runtime, int capability) { return runtime < 13000 || capability >= 75; }
/// Returns true if cuDNN (as cudnnGetVersion()) for that CUDA version has code for a capability.
/// cuDNN itself does not say: it builds plans that could not run, or crashes.
constexpr bool is_run_by(size_t cudnn, int runtime, int capability) {
    if (capability < 75) return runtime < 13000 && cudnn < 91100;
    return capability < 100 || runtime >= 12080;
}
/// Returns false if this cuDNN crashes when it plans resnet50 in f16 for that capability: 9.10.2
/// divides by zero for an A100, 9.11 does not. `cudnn`: 0 if unknown.
constexpr bool plans_f16(size_t cudnn, int capability) { return capability != 80 || cudnn >= 91100 || cudnn == 0; }
/// Throws Exit::usage for f16 where plans_f16() is false. `gpu`: as in check_precision().
void check_f16(Precision, size_t cudnn, int capability, const std::string& gpu);
/// Returns how to build for a capability that other versions have dropped, or do not know yet.
std::string versions_for(int capability);
/// Returns why Convoy cannot run on any device; empty if it can.
std::string reason_without_device(const Found&);
/// Returns true if kernels compiled for `architectures` run on a device of this capability.
bool runs_on(int capability, const std::vector<int>& architectures);

/// Returns the visible device for local rank `local_rank` of a node. `chosen`: --devices; empty for
/// all. If a rank sees a single device, it takes that one. Throws Exit::usage if `chosen` names a
/// device that is not visible, or if ranks outnumber devices without `share`.
int device_of_rank(int local_rank, int local_size, int visible, const std::vector<int>& chosen, bool share);

struct DeviceInfo {
    int index = 0, capability = 0;
    std::string name, uuid, bus;
    size_t memory = 0;
    int multiprocessors = 0;
    size_t l2 = 0;         ///< bytes of the L2 cache
    std::string others{};  ///< processes that used it before this one did; empty if none or not known
};
DeviceInfo describe_device(int index);
/// Throws Exit::usage if a rank cannot compute on its device, or not in this precision.
void check_device(const DeviceInfo&, const Found&, Precision, int rank);
/// Returns the message about the first two ranks that have the same device; empty if no two do.
/// `ranks`: "host uuid" of each rank, in order of rank.
std::string shared_device(const std::vector<std::string>& ranks);

}  // namespace convoy::cuda
