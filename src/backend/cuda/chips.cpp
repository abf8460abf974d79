// The descriptions are made from published figures. On a machine with the GPU,
// Cudnn::description() returns the exact text.
#include "backend/cuda/chips.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <iterator>

#include "backend/chips.h"
#include "base/text.h"

namespace convoy::cuda {
namespace {

/// Figures that only cuDNN asks for: shared memory and L2 cache in bytes, clocks in kHz.
struct Details {
    int shared_memory;                             ///< limit for a block that asks for more than the usual 48 KiB
    int blocks, threads, clock, l2, memory_clock;  ///< blocks and threads: at most on a multiprocessor
};
// In the order of known_chips. Below 8.0 nothing of a block's shared memory is reserved.
constexpr Details details[] = {
    {49'152, 32, 2048, 1'480'500, 4'194'304, 715'000},       // p100
    {49'152, 32, 2048, 1'531'000, 3'145'728, 3'615'000},     // p40
    {98'304, 32, 2048, 1'530'000, 6'291'456, 877'000},       // v100
    {65'536, 16, 1024, 1'545'000, 5'767'168, 7'000'000},     // rtx2080ti
    {166'912, 32, 2048, 1'410'000, 41'943'040, 1'593'000},   // a100
    {101'376, 24, 1536, 2'520'000, 100'663'296, 9'001'000},  // l40s
    {232'448, 32, 2048, 1'980'000, 52'428'800, 2'619'000},   // h100
    {232'448, 32, 2048, 1'980'000, 62'914'560, 3'201'000},   // h200
    {232'448, 32, 2048, 1'965'000, 132'644'864, 3'996'000},  // b200
};
static_assert(std::size(details) == std::size(known_chips));

}  // namespace

std::string chip_description(const std::string& name) {
    const Chip& chip = find_chip(name);
    const Details& d = details[&chip - known_chips];
    return formatted(
        R"({"deviceVer":%d,"multiProcessorCount":%d,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
        R"("maxSharedMemoryPerBlockOptin":%d,"reservedSharedMemoryPerBlock":%d,"maxRegistersPerSM":65536,)"
        R"("maxCtasPerSM":%d,"maxThreadsPerBlock":1024,"maxThreadsPerSM":%d,"regsPerBlock":65536,)"
        R"("totalGlobalMem":%zu,"smClockRateKHz":%d,"l2CacheSize":%d,"maxBlockSize":[1024,1024,64],)"
        R"("memClockRateKHz":%d,"maxGridSize":[2147483647,65535,65535],"supportCoopLaunch":1,"pciDeviceId":0,)"
        R"("isTccDriver":0,"cudaDeviceId":0,"driverVer":%d,"deviceName":"%s"})",
        10 * chip.capability, chip.multiprocessors, d.shared_memory, chip.capability >= 80 ? 1024 : 0, d.blocks,
        d.threads, chip.memory, d.clock, d.l2, d.memory_clock, CUDART_VERSION, chip.title);
}

Driver load_driver_or_stub() {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) return Driver::real;
    Dl_info library{};
    if (!dladdr(reinterpret_cast<const void*>(&cudnnGetVersion), &library) || !library.dli_fname) return Driver::none;
    const std::string path = library.dli_fname;
    // The stub calls itself libcuda.so.1 (soname), so that cuDNN finds it by that name later.
    const std::string stub = path.substr(0, path.rfind('/')) + "/stubs/libcuda.so";
    return dlopen(stub.c_str(), RTLD_NOW | RTLD_GLOBAL) ? Driver::stub : Driver::none;
}

}  // namespace convoy::cuda
