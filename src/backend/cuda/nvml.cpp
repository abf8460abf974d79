#include "backend/cuda/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

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
constexpr unsigned longest_vbios = 32;    // bytes, NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE
enum EccError { corrected = 0, uncorrected = 1 };
enum EccCounter { since_start = 0, lifetime = 1 };  // since the driver was loaded, and over the board's life
constexpr int link_replays = 0, link_recoveries = 1, link_data_errors = 3;
/// Bits of nvmlDeviceGetCurrentClocksEventReasons that stand for less speed than the settings
/// allow.
constexpr std::pair<unsigned long long, const char*> throttle_reasons[] = {{0x04, "power cap"},
                                                                           {0x08, "hardware slowdown"},
                                                                           {0x20, "heat (by software)"},
                                                                           {0x40, "heat (by hardware)"},
                                                                           {0x80, "power brake"}};

std::string on_or_off(unsigned state) { return state ? "on" : "off"; }

}  // namespace

Nvml::Lookup Nvml::library() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // stays loaded
    return [library](const char* name) { return library ? dlsym(library, name) : nullptr; };
}

template <class... Args> bool Nvml::call(const char* function, Args... args) const {
    const auto f = reinterpret_cast<int (*)(Args...)>(lookup_(function));
    return f && f(args...) == 0;
}

template <class Number, class... Args> std::optional<Number> Nvml::number(const char* function, Args... args) const {
    Number answer{};
    if (!call(function, device_, args..., &answer)) return std::nullopt;
    return answer;
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

std::string Nvml::throttled_by() const {
    auto bits = number<unsigned long long>("nvmlDeviceGetCurrentClocksEventReasons");
    if (!bits) bits = number<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons");  // before driver 535
    if (!bits) return "";
    std::vector<std::string> reasons;
    for (const auto& [bit, reason] : throttle_reasons)
        if (*bits & bit) reasons.emplace_back(reason);
    return reasons.empty() ? "nothing" : joined(reasons, " and ");
}

void Nvml::add_settings(Facts& facts) const {
    if (const auto index = number<unsigned>("nvmlDeviceGetIndex")) facts.emplace_back("index", std::to_string(*index));
    if (char text[longest_vbios] = ""; call("nvmlDeviceGetVbiosVersion", device_, +text, longest_vbios))
        facts.emplace_back("VBIOS", text);
    if (unsigned now = 0, pending = 0; call("nvmlDeviceGetEccMode", device_, &now, &pending)) {
        facts.emplace_back("ECC", on_or_off(now));
        facts.emplace_back("ECC after a restart", on_or_off(pending));
    }
    if (unsigned now = 0, pending = 0; call("nvmlDeviceGetMigMode", device_, &now, &pending))
        facts.emplace_back("MIG", on_or_off(now));
    if (const auto state = number<unsigned>("nvmlDeviceGetPersistenceMode"))
        facts.emplace_back("persistence", on_or_off(*state));
    if (const auto milliwatts = number<unsigned>("nvmlDeviceGetPowerManagementLimit"))
        facts.emplace_back("power limit", formatted("%g W", *milliwatts / 1e3));
    if (const auto mhz = number<unsigned>("nvmlDeviceGetMaxClockInfo", sm_clock))
        facts.emplace_back("highest clock", std::to_string(*mhz) + " MHz");
    if (const auto mhz = number<unsigned>("nvmlDeviceGetClockInfo", sm_clock))
        facts.emplace_back("clock", std::to_string(*mhz) + " MHz");
    if (const auto celsius = number<unsigned>("nvmlDeviceGetTemperature", temperature_of_gpu))
        facts.emplace_back("temperature", std::to_string(*celsius) + " °C");
    if (const std::string reasons = throttled_by(); !reasons.empty()) facts.emplace_back("throttled by", reasons);
}

void Nvml::add_links(Facts& facts) const {
    const auto width = number<unsigned>("nvmlDeviceGetCurrPcieLinkWidth"),
               widest = number<unsigned>("nvmlDeviceGetMaxPcieLinkWidth");
    if (width && widest) facts.emplace_back("PCIe width", std::to_string(*width) + " of " + std::to_string(*widest));
    if (const auto replays = number<unsigned>("nvmlDeviceGetPcieReplayCounter"))
        facts.emplace_back("PCIe replays", std::to_string(*replays));
    if (!lookup_("nvmlDeviceGetNvLinkState")) return;
    facts.emplace_back("NVLinks", std::to_string(nvlinks()));
    std::optional<unsigned long long> errors;
    for (unsigned link = 0; link < most_links; ++link)
        for (const int counter : {link_replays, link_recoveries, link_data_errors})
            if (const auto count = is_up(link)
                                       ? number<unsigned long long>("nvmlDeviceGetNvLinkErrorCounter", link, counter)
                                       : std::nullopt)
                errors = errors.value_or(0) + *count;
    if (errors) facts.emplace_back("NVLink errors", std::to_string(*errors));
}

void Nvml::add_memory_errors(Facts& facts) const {
    constexpr std::tuple<const char*, EccError, EccCounter> counters[] = {
        {"uncorrected ECC errors", uncorrected, since_start},
        {"corrected ECC errors", corrected, since_start},
        {"lifetime uncorrected ECC errors", uncorrected, lifetime}};
    for (const auto& [name, error, counter] : counters)
        if (const auto count = number<unsigned long long>("nvmlDeviceGetTotalEccErrors", int(error), int(counter)))
            facts.emplace_back(name, std::to_string(*count));
    unsigned after_corrected = 0, after_uncorrected = 0, pending = 0, failed = 0;
    if (call("nvmlDeviceGetRemappedRows", device_, &after_corrected, &after_uncorrected, &pending, &failed)) {
        facts.emplace_back("remapped rows", std::to_string(after_corrected + after_uncorrected));
        facts.emplace_back("row remapping pending", pending ? "yes" : "no");
        facts.emplace_back("row remapping failed", failed ? "yes" : "no");
    }
    if (const auto waiting = number<unsigned>("nvmlDeviceGetRetiredPagesPendingStatus"))
        facts.emplace_back("page retirement pending", *waiting ? "yes" : "no");
}

Facts Nvml::health() const {
    Facts facts;
    if (!device_) return facts;
    add_settings(facts);
    add_links(facts);
    add_memory_errors(facts);
    return facts;
}

std::string Nvml::driver() const {
    char text[longest_version] = "";
    return call("nvmlSystemGetDriverVersion", +text, longest_version) ? text : "";
}

}  // namespace convoy::cuda
