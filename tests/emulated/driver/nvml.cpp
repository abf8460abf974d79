// A simulated libnvidia-ml.so.1, for runs on the emulated device: GPUs with one serial number. If
// EMULATED_NEIGHBOUR is set, another user's process that runs that program is on each GPU. The GPU
// whose index is EMULATED_BAD_MEMORY has two uncorrected ECC errors. LD_LIBRARY_PATH selects this
// library.
#include <cstdio>
#include <cstdlib>

namespace {

struct Process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};
constexpr int insufficient_size = 7;
constexpr unsigned most_devices = 256;
unsigned char devices[most_devices];  // a handle is the address of the element of its index

unsigned index_of(const void* handle) { return unsigned(static_cast<const unsigned char*>(handle) - devices); }

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** handle) {
    constexpr int invalid_argument = 2;
    unsigned index = 0;  // the number of the bus, as in "0000:03:00.0"
    if (std::sscanf(bus, "%*x:%x", &index) != 1 || index >= most_devices) return invalid_argument;
    return *handle = &devices[index], 0;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) { return *index = index_of(device), 0; }
int nvmlDeviceGetEccMode(void*, unsigned* now, unsigned* pending) { return *now = *pending = 1, 0; }
int nvmlDeviceGetTotalEccErrors(void* device, int uncorrected, int, unsigned long long* count) {
    const char* bad = std::getenv("EMULATED_BAD_MEMORY");
    return *count = uncorrected && bad && index_of(device) == unsigned(std::atoi(bad)) ? 2 : 0, 0;
}
int nvmlDeviceGetSerial(void*, char* text, unsigned bytes) { return std::snprintf(text, bytes, "1322521000042"), 0; }
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return *celsius = 61, 0; }
int nvmlDeviceGetUtilizationRates(void*, unsigned* gpu_and_memory) {
    gpu_and_memory[0] = 87;
    gpu_and_memory[1] = 40;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* all) {
    const unsigned there = std::getenv("EMULATED_NEIGHBOUR") ? 1 : 0;
    if (*count < there) return insufficient_size;
    if (there == 1) all[0] = {.pid = 4242, .memory = 3ull << 30, .gpu_instance = 0, .compute_instance = 0};
    return *count = there, 0;
}
int nvmlSystemGetProcessName(unsigned pid, char* text, unsigned bytes) {
    constexpr int not_found = 6;
    if (pid != 4242) return not_found;
    return std::snprintf(text, bytes, "%s", std::getenv("EMULATED_NEIGHBOUR")), 0;
}
}
