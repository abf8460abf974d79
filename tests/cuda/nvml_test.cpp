// NVML through a simulated library: which functions are called, and the units of their answers.
#include "backend/cuda/nvml.h"
#include "backend/cuda_queries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

namespace convoy::test {
namespace {

using namespace cuda;

int device_of_the_test = 0;
constexpr int not_supported = 3;

struct Answers {
    static int init() { return 0; }
    static int handle(const char* bus, void** device) {
        *device = &device_of_the_test;
        return std::strcmp(bus, "0000:65:00.0") == 0 ? 0 : 2;
    }
    static int utilisation(void* device, unsigned* gpu_and_memory) {
        gpu_and_memory[0] = 87;
        gpu_and_memory[1] = 40;
        return device == &device_of_the_test ? 0 : 2;
    }
    static int memory(void*, unsigned long long* total_free_used) {
        total_free_used[0] = 80ull << 30;
        total_free_used[1] = 60ull << 30;
        total_free_used[2] = 20ull << 30;
        return 0;
    }
    static int temperature(void*, int sensor, unsigned* celsius) { return *celsius = sensor == 0 ? 61 : 0, 0; }
    static int serial(void*, char* text, unsigned bytes) { return std::snprintf(text, bytes, "1322521000042"), 0; }
    struct Process {
        unsigned pid;
        unsigned long long memory;
        unsigned gpu_instance, compute_instance;
    };
    static int processes(void*, unsigned* count, Process* all) {
        if (*count < 4) return 7;
        all[0] = {4242, 3ull << 30, 0, 0};
        all[1] = {7, ~0ull, 0, 0};
        all[2] = {8, 512ull << 20, 0, 0};
        all[3] = {9, 24ull << 20, 0, 0};
        return *count = 4, 0;
    }
    static int name(unsigned pid, char* text, unsigned bytes) {
        if (pid == 7) return 6;  // it has ended meanwhile, or belongs to another user
        const char* names[] = {"/opt/nvidia-cuda-mps-server/python3 train.py",
                               "/usr/bin/nvidia-cuda-mps-server -force"};
        return std::snprintf(text, bytes, "%s", names[pid == 9]), 0;
    }
    static int power(void*, unsigned* milliwatts) { return *milliwatts = 651500, 0; }
    static int clock(void*, int kind, unsigned* mhz) { return *mhz = kind == 1 ? 1980 : 1, 0; }
    static int link(void*, unsigned link, int* active) { return *active = link < 6, link < 12 ? 0 : not_supported; }
    static int link_version(void*, unsigned, unsigned* version) { return *version = 4, 0; }
    static int driver(char* text, unsigned bytes) { return std::snprintf(text, bytes, "580.65.06"), 0; }
    static int pcie(void*, unsigned* value) { return *value = 5, 0; }
    static int version_of_bios(void*, char* text, unsigned n) { return std::snprintf(text, n, "96.00.74.00.01"), 0; }
    static int on_and_off(void*, unsigned* now, unsigned* pending) { return *now = 1, *pending = 0, 0; }
    static int persistence(void*, unsigned* state) { return *state = 1, 0; }
    static int limit(void*, unsigned* milliwatts) { return *milliwatts = 700000, 0; }
    static int event_reasons(void*, unsigned long long* bits) { return *bits = 0x1 | 0x4 | 0x40, 0; }
    static int narrow(void*, unsigned* lanes) { return *lanes = 8, 0; }
    static int wide(void*, unsigned* lanes) { return *lanes = 16, 0; }
    static int ecc_errors(void*, int uncorrected, int lifetime, unsigned long long* count) {
        return *count = uncorrected ? lifetime ? 9 : 2 : 5, 0;
    }
    static int rows(void*, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed) {
        return *corrected = 3, *uncorrected = 1, *pending = 1, *failed = 0, 0;
    }
    static int link_errors(void*, unsigned link, int counter, unsigned long long* count) {
        return *count = link == 2 && counter == 1 ? 7 : counter == 2 ? 1000 : 0, 0;
    }
};

void* answer(const std::string& name) {
    const auto as = [](auto* function) { return reinterpret_cast<void*>(function); };
    if (name == "nvmlInit_v2" || name == "nvmlShutdown") return as(Answers::init);
    if (name == "nvmlDeviceGetHandleByPciBusId_v2") return as(Answers::handle);
    if (name == "nvmlDeviceGetUtilizationRates") return as(Answers::utilisation);
    if (name == "nvmlDeviceGetMemoryInfo") return as(Answers::memory);
    if (name == "nvmlDeviceGetTemperature") return as(Answers::temperature);
    if (name == "nvmlDeviceGetSerial") return as(Answers::serial);
    if (name == "nvmlDeviceGetComputeRunningProcesses_v3") return as(Answers::processes);
    if (name == "nvmlSystemGetProcessName") return as(Answers::name);
    if (name == "nvmlDeviceGetPowerUsage") return as(Answers::power);
    if (name == "nvmlDeviceGetClockInfo") return as(Answers::clock);
    if (name == "nvmlSystemGetDriverVersion") return as(Answers::driver);
    if (name == "nvmlDeviceGetNvLinkState") return as(Answers::link);
    if (name == "nvmlDeviceGetNvLinkVersion") return as(Answers::link_version);
    if (name == "nvmlDeviceGetCurrPcieLinkGeneration") return as(Answers::pcie);
    return nullptr;  // simulates a driver too old for it
}

TEST(CudaNvml, AnswersArriveInSiUnits) {
    const Nvml nvml("0000:65:00.0", answer);
    const SystemSample s = nvml.sample();
    EXPECT_DOUBLE_EQ(s.utilisation, 0.87);
    EXPECT_EQ(s.memory_bytes, double(20ull << 30));
    EXPECT_DOUBLE_EQ(s.power_watts, 651.5);
    EXPECT_DOUBLE_EQ(s.clock_hz, 1.98e9);
    EXPECT_DOUBLE_EQ(s.temperature_celsius, 61);
    EXPECT_EQ(nvml.links(), "6 NVLinks of version 4") << "the width of PCIe is not to be had";
}

TEST(CudaNvml, TheBoardAndItsUsersAreNamed) {
    const Nvml nvml("0000:65:00.0", answer);
    EXPECT_EQ(nvml.serial(), "1322521000042");
    EXPECT_EQ(nvml.processes(), "process 4242 (3.0 GiB), process 7 and process 8 (0.5 GiB)")
        << "the last is the server of the multi-process service";
}

/// Simulates a newer driver, which also answers about settings and errors.
void* more_answers(const std::string& name) {
    const auto as = [](auto* function) { return reinterpret_cast<void*>(function); };
    if (name == "nvmlDeviceGetIndex" || name == "nvmlDeviceGetPcieReplayCounter") return as(Answers::pcie);
    if (name == "nvmlDeviceGetVbiosVersion") return as(Answers::version_of_bios);
    if (name == "nvmlDeviceGetEccMode" || name == "nvmlDeviceGetMigMode") return as(Answers::on_and_off);
    if (name == "nvmlDeviceGetPersistenceMode") return as(Answers::persistence);
    if (name == "nvmlDeviceGetPowerManagementLimit") return as(Answers::limit);
    if (name == "nvmlDeviceGetMaxClockInfo") return as(Answers::clock);
    if (name == "nvmlDeviceGetCurrentClocksEventReasons") return as(Answers::event_reasons);
    if (name == "nvmlDeviceGetCurrPcieLinkWidth") return as(Answers::narrow);
    if (name == "nvmlDeviceGetMaxPcieLinkWidth") return as(Answers::wide);
    if (name == "nvmlDeviceGetTotalEccErrors") return as(Answers::ecc_errors);
    if (name == "nvmlDeviceGetRemappedRows") return as(Answers::rows);
    if (name == "nvmlDeviceGetNvLinkErrorCounter") return as(Answers::link_errors);
    return answer(name);
}

TEST(CudaNvml, SettingsLinksAndErrorsAreNamed) {
    const Facts wanted = {{"index", "5"},
                          {"VBIOS", "96.00.74.00.01"},
                          {"ECC", "on"},
                          {"ECC after a restart", "off"},
                          {"MIG", "on"},
                          {"persistence", "on"},
                          {"power limit", "700 W"},
                          {"highest clock", "1980 MHz"},
                          {"clock", "1980 MHz"},
                          {"temperature", "61 °C"},
                          {"throttled by", "power cap and heat (by hardware)"},
                          {"PCIe width", "8 of 16"},
                          {"PCIe replays", "5"},
                          {"NVLinks", "6"},
                          {"NVLink errors", "7"},
                          {"uncorrected ECC errors", "2"},
                          {"corrected ECC errors", "5"},
                          {"lifetime uncorrected ECC errors", "9"},
                          {"remapped rows", "4"},
                          {"row remapping pending", "yes"},
                          {"row remapping failed", "no"}};
    EXPECT_EQ(Nvml("0000:65:00.0", more_answers).health(), wanted)
        << "flits with errors, the third counter, are repeated unnoticed";
}

TEST(CudaNvml, ReasonsOfThrottlingAreThoseOfOlderDriversToo) {
    const Nvml older("0000:65:00.0", [](const std::string& name) -> void* {
        if (name == "nvmlDeviceGetCurrentClocksEventReasons") return nullptr;
        return more_answers(
            name == "nvmlDeviceGetCurrentClocksThrottleReasons" ? "nvmlDeviceGetCurrentClocksEventReasons" : name);
    });
    const Facts facts = older.health();
    EXPECT_NE(
        std::find(facts.begin(), facts.end(), Facts::value_type("throttled by", "power cap and heat (by hardware)")),
        facts.end());
}

TEST(CudaNvml, WithoutAnswersNothingIsKnown) {
    const Nvml another("0000:ff:00.0", answer), none("0000:65:00.0", [](const char*) { return nullptr; });
    for (const Nvml* nvml : {&another, &none}) {
        EXPECT_TRUE(std::isnan(nvml->sample().utilisation));
        EXPECT_TRUE(std::isnan(nvml->sample().memory_bytes));
        EXPECT_TRUE(std::isnan(nvml->sample().temperature_celsius));
        EXPECT_EQ(nvml->links(), "");
        EXPECT_EQ(nvml->serial(), "");
        EXPECT_EQ(nvml->processes(), "");
        EXPECT_EQ(nvml->health(), Facts{});
    }
    EXPECT_EQ(none.driver(), "");
    EXPECT_EQ(another.driver(), "580.65.06") << "it is asked without a GPU";
}

TEST(CudaNvml, AMachineWithoutADriverHasNone) {
    if (cuda_unavailable().empty()) GTEST_SKIP() << "this machine has a GPU";
    EXPECT_EQ(Nvml("0000:65:00.0").links(), "");
}

}  // namespace
}  // namespace convoy::test
