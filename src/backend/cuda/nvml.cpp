#include "backend/cuda/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace convoy::cuda {
namespace {

// Copies of definitions in nvml.h, because not every toolkit has that header.
struct Utilisation {
    unsigned gpu, memory;  // percent of the time since the driver's previous sample
};
struct Memory {
    unsigned long long total, available, used;  // bytes
};
struct Process {
    unsigned pid;
    unsigned long long memory;  // bytes; all ones: not known
    unsigned gpu_instance, compute_instance;
};
constexpr int sm_clock = 1, temperature_of_gpu = 0, most_links = 18;
constexpr unsigned longest_serial = 30;  // bytes, NVML_DEVICE_SERIAL_BUFFER_SIZE
constexpr unsigned longest_name = 256;   // bytes of a command line; longer ones are cut off
/// The server of CUDA's multi-process service. It computes only for its clients, such as ranks.
constexpr const char* mps_server = "nvidia-cuda-mps-server";
constexpr unsigned longest_version = 80;  // bytes, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE

}  // namespace

Nvml::Lookup Nvml::library() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // stays loaded
    return [library](const char* name) { return library ? dlsym(library, name) : nullptr; };
}

template <class... Args> bool Nvml::call(const char* function, Args... args) const {
    const auto f = reinterpret_cast<int (*)(Args...)>(lookup_(function));
    return f && f(args...) == 0;
}

Nvml::Nvml(const std::string& bus, Lookup lookup) : lookup_(std::move(lookup)) {
    if (!call("nvmlInit_v2") || !call("nvmlDeviceGetHandleByPciBusId_v2", bus.c_str(), &device_)) device_ = nullptr;
}

Nvml::~Nvml() { call("nvmlShutdown"); }

SystemSample Nvml::sample() const {
    SystemSample s;
    if (!device_) return s;
    if (Utilisation u{}; call("nvmlDeviceGetUtilizationRates", device_, &u)) s.utilisation = u.gpu / 100.0;
    if (Memory m{}; call("nvmlDeviceGetMemoryInfo", device_, &m)) s.memory_bytes = double(m.used);
    if (unsigned milliwatts = 0; call("nvmlDeviceGetPowerUsage", device_, &milliwatts))
        s.power_watts = milliwatts / 1e3;
    if (unsigned mhz = 0; call("nvmlDeviceGetClockInfo", device_, sm_clock, &mhz)) s.clock_hz = mhz * 1e6;
    if (unsigned celsius = 0; call("nvmlDeviceGetTemperature", device_, temperature_of_gpu, &celsius))
        s.temperature_celsius = celsius;
    return s;
}

bool Nvml::is_up(unsigned link) const {
    int active = 0;
    return device_ && call("nvmlDeviceGetNvLinkState", device_, link, &active) && active;
}

int Nvml::nvlinks() const {
    int count = 0;
    for (unsigned link = 0; link < most_links; ++link) count += is_up(link);
    return count;
}

std::string Nvml::links() const {
    if (!device_) return "";
    const int count = nvlinks();
    unsigned first = 0, version = 0;
    while (first < most_links && !is_up(first)) ++first;
    if (count > 0) call("nvmlDeviceGetNvLinkVersion", device_, first, &version);
    std::string text =
        count == 0 ? "no NVLink" : std::to_string(count) + " NVLinks of version " + std::to_string(version);
    unsigned generation = 0, width = 0;
    if (call("nvmlDeviceGetCurrPcieLinkGeneration", device_, &generation) &&
        call("nvmlDeviceGetCurrPcieLinkWidth", device_, &width))
        text += ", PCIe generation " + std::to_string(generation) + " x" + std::to_string(width);
    return text;
}

std::string Nvml::serial() const {
    char text[longest_serial] = "";
    return device_ && call("nvmlDeviceGetSerial", device_, +text, longest_serial) ? text : "";
}

std::string Nvml::processes() const {
    std::array<Process, 64> all{};
    auto count = unsigned(all.size());
    if (!device_ || !call("nvmlDeviceGetComputeRunningProcesses_v3", device_, &count, all.data())) return "";
    const auto end = std::remove_if(all.begin(), all.begin() + std::min<size_t>(count, all.size()),
                                    [&](const Process& p) { return program_of(p.pid) == mps_server; });
    std::string text;
    for (auto p = all.begin(); p != end; ++p) {
        text += (p == all.begin() ? "" : p + 1 == end ? " and " : ", ") + ("process " + std::to_string(p->pid));
        if (p->memory != ~0ull) text += formatted(" (%.1f GiB)", double(p->memory) / (1 << 30));
    }
    return text;
}

std::string Nvml::program_of(unsigned pid) const {
    char text[longest_name] = "";
    if (!call("nvmlSystemGetProcessName", pid, +text, longest_name)) return "";
    const std::string command = text, program = command.substr(0, command.find(' '));
    return program.substr(program.rfind('/') + 1);
}

std::string Nvml::driver() const {
    char text[longest_version] = "";
    return call("nvmlSystemGetDriverVersion", +text, longest_version) ? text : "";
}

}  // namespace convoy::cuda
