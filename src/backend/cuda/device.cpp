#include "backend/cuda/device.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/handles.h"
#include "backend/cuda/nvml.h"
#include "backend/cuda_entry.h"
#include "backend/gpu/precisions.h"

namespace convoy::cuda {
namespace {

constexpr int oldest = 60;  // compute capability

std::string version_text(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

/// Returns what to do if the kernels have no code for a capability.
std::string how_to_have(int capability, int runtime) {
    if (capability < oldest) return "Convoy needs " + capability_text(oldest) + " or newer";
    if (!is_compiled_by(runtime, capability)) return "CUDA 13 has dropped that GPU: " + versions_for(capability);
    return "build with CUDA_ARCHS=" + std::to_string(capability);
}

}  // namespace

Found find_devices() {
    Found f;
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    f.visible = visible ? visible : "(unset)";
    std::istringstream archs(CONVOY_CUDA_ARCHS);
    for (int a; archs >> a;) f.architectures.push_back(a);
    std::sort(f.architectures.begin(), f.architectures.end());
    f.runtime = CUDART_VERSION;
    f.cudnn = cudnnGetVersion();
    cudaDriverGetVersion(&f.driver);  // 0 without a driver
    int count = 0;
    if (const cudaError_t e = cudaGetDeviceCount(&count); e != cudaSuccess) {
        f.error = cudaGetErrorString(e);
        count = 0;
        cudaGetLastError();  // clears the error, so that the next launch does not report it
    }
    for (int i = 0; i < count; ++i) {
        int major = 0, minor = 0;
        check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i), "reading the compute capability");
        check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i), "reading the compute capability");
        f.capabilities.push_back(10 * major + minor);
    }
    return f;
}

bool runs_on(int capability, const std::vector<int>& architectures) {
    if (architectures.empty()) return false;
    for (int a : architectures)
        if (a / 10 == capability / 10 && a <= capability) return true;  // machine code runs within its major version
    return architectures.back() <= capability;                          // the driver compiles PTX for newer devices
}

std::string versions_for(int capability) {
    if (capability >= 75) return "build with CUDA 12.8 or newer";
    return "build with CUDA 12, cuDNN 9.10 and CUDA_ARCHS=" + std::to_string(capability) + " (src/README.md)";
}

std::string reason_without_device(const Found& f) {
    if (f.driver == 0) return "there is no NVIDIA driver on this machine";
    if (f.driver / 1000 < f.runtime / 1000)
        return "the NVIDIA driver is too old: it runs CUDA up to " + version_text(f.driver) +
               ", and this was built with CUDA " + version_text(f.runtime) +
               "; update the driver or build with an older toolkit";
    if (f.capabilities.empty() && f.visible != "(unset)")
        return "the NVIDIA driver shows no GPU: CUDA_VISIBLE_DEVICES is '" + f.visible + "'";
    if (f.capabilities.empty())
        return "there is an NVIDIA driver, but no GPU" + (f.error.empty() ? "" : " (" + f.error + ")");
    if (!f.error.empty()) return "the NVIDIA driver does not work: " + f.error;
    for (int c : f.capabilities)
        if (runs_on(c, f.architectures)) return "";
    return "the GPU has compute capability " + capability_text(f.capabilities[0]) + ", and this was built for " +
           capability_text(f.architectures.front()) + " and newer; " + how_to_have(f.capabilities[0], f.runtime);
}

void check_f16(Precision precision, size_t cudnn, int capability, const std::string& gpu) {
    if (precision == Precision::f16 && !plans_f16(cudnn, capability))
        fail(Exit::usage, "--precision f16: cuDNN before 9.11 crashes when it plans this for " + gpu +
                              "; take bf16, or a newer cuDNN");
}

void check_device(const DeviceInfo& d, const Found& f, Precision precision, int rank) {
    const std::string gpu = "the " + d.name + " of rank " + std::to_string(rank);
    if (!runs_on(d.capability, f.architectures))
        fail(Exit::usage, "--device cuda: " + gpu + " has compute capability " + capability_text(d.capability) +
                              ", which this was not built for; " + how_to_have(d.capability, f.runtime) +
                              ", or choose --devices");
    if (!is_run_by(0, f.runtime, d.capability))
        fail(Exit::usage, "--device cuda: " + gpu + " has compute capability " + capability_text(d.capability) +
                              ", for which cuDNN for CUDA " + version_text(f.runtime) + " has no code; " +
                              versions_for(d.capability));
    check_precision(precision, d.capability, gpu);
    check_f16(precision, f.cudnn, d.capability, gpu);
}

int device_of_rank(int local_rank, int local_size, int visible, const std::vector<int>& chosen, bool share) {
    for (int d : chosen)
        if (d < 0 || d >= visible)
            fail(Exit::usage, "--devices names device " + std::to_string(d) + ", but this rank sees " +
                                  std::to_string(visible) + (visible == 1 ? " device" : " devices") +
                                  ", counted from 0");
    const int count = chosen.empty() ? visible : int(chosen.size());
    const auto at = [&](int i) { return chosen.empty() ? i : chosen[i]; };
    if (local_rank < count) return at(local_rank);
    // with one visible device, the launcher gave each rank its own; shared_device() checks that
    if (visible == 1 || share) return at(local_rank % count);
    fail(Exit::usage, std::to_string(local_size) + " ranks on a node with " + std::to_string(count) +
                          " GPUs; start one rank per GPU, or add --share-device");
}

DeviceInfo describe_device(int index) {
    cudaDeviceProp p{};
    check(cudaGetDeviceProperties(&p, index), "reading the properties of a GPU");
    DeviceInfo d{
        index, 10 * p.major + p.minor, p.name, "", "", p.totalGlobalMem, p.multiProcessorCount, size_t(p.l2CacheSize)};
    constexpr char digits[] = "0123456789abcdef";
    for (const char byte : p.uuid.bytes) (d.uuid += digits[uint8_t(byte) >> 4]) += digits[byte & 15];
    char bus[32] = "";
    check(cudaDeviceGetPCIBusId(bus, sizeof bus, index), "reading the bus of a GPU");
    d.bus = bus;
    return d;
}

std::string shared_device(const std::vector<std::string>& ranks) {
    for (size_t b = 0; b < ranks.size(); ++b)
        for (size_t a = 0; a < b; ++a)
            if (ranks[a] == ranks[b])
                return "ranks " + std::to_string(a) + " and " + std::to_string(b) + " on " +
                       ranks[a].substr(0, ranks[a].find(' ')) +
                       " have the same GPU; start one rank per GPU, or add --share-device";
    return "";
}

Versions versions() {
    const Found f = find_devices();
    int nccl = 0;
    ncclGetVersion(&nccl);
    const std::string driver = Nvml("").driver();
    return {{"driver",
             f.driver == 0 ? "none" : (driver.empty() ? "" : driver + ", ") + "CUDA up to " + version_text(f.driver)},
            {"cuda", version_text(f.runtime)},
            {"kernels", "for compute capabilities " CONVOY_CUDA_ARCHS},
            {"cudnn", Cudnn::version()},
            {"nccl",
             std::to_string(nccl / 10000) + "." + std::to_string(nccl / 100 % 100) + "." + std::to_string(nccl % 100)}};
}

std::string unavailable() { return reason_without_device(find_devices()); }

}  // namespace convoy::cuda
