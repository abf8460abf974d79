// Written from published figures; on a machine with the GPU, cudnn-frontend's
// DeviceProperties::serialize gives the exact text.
#include "backend/cuda/chips.h"

#include <cudnn.h>
#include <dlfcn.h>

#include <iterator>

#include "backend/chips.h"

namespace convoy::cuda {
namespace {

// In the order of known_chips.
constexpr const char* descriptions[] = {
    R"({"deviceVer":900,"multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
    R"("regsPerBlock":65536,"totalGlobalMem":85520809984,"smClockRateKHz":1980000,"l2CacheSize":52428800,"maxBlockSize":[1024,1024,64],)"
    R"("memClockRateKHz":2619000,"maxGridSize":[2147483647,65535,65535],"supportCoopLaunch":1,"pciDeviceId":0,"isTccDriver":0,)"
    R"("cudaDeviceId":0,"driverVer":13000,"deviceName":"NVIDIA H100 80GB HBM3"})",

    R"({"deviceVer":800,"multiProcessorCount":108,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":166912,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
    R"("regsPerBlock":65536,"totalGlobalMem":85097971712,"smClockRateKHz":1410000,"l2CacheSize":41943040,"maxBlockSize":[1024,1024,64],)"
    R"("memClockRateKHz":1593000,"maxGridSize":[2147483647,65535,65535],"supportCoopLaunch":1,"pciDeviceId":0,"isTccDriver":0,)"
    R"("cudaDeviceId":0,"driverVer":13000,"deviceName":"NVIDIA A100-SXM4-80GB"})"};
static_assert(std::size(descriptions) == std::size(known_chips));

}  // namespace

const char* chip_description(const std::string& name) { return descriptions[&find_chip(name) - known_chips]; }

Driver load_driver_or_stub() {
    // Loaded under its own name once, it is found by that name ever after.
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) return Driver::real;
    Dl_info library{};
    if (!dladdr(reinterpret_cast<const void*>(&cudnnGetVersion), &library) || !library.dli_fname) return Driver::none;
    const std::string path = library.dli_fname;
    const std::string stub = path.substr(0, path.rfind('/')) + "/stubs/libcuda.so";
    return dlopen(stub.c_str(), RTLD_NOW | RTLD_GLOBAL) ? Driver::stub : Driver::none;
}

}  // namespace convoy::cuda
