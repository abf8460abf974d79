// Queries the driver's management library (NVML) about one GPU: its load and its links. NVML comes
// with the driver, so it is loaded at run time. Without it values are not known, but nothing fails.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "backend/backend.h"

namespace convoy::cuda {

class Nvml {
public:
    /// Finds a function of the library by name; null if it has none.
    using Lookup = std::function<void*(const char*)>;
    /// `bus`: the GPU's PCI bus id in CUDA's notation.
    explicit Nvml(const std::string& bus, Lookup = library());
    ~Nvml();
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    /// Returns the current load; NaN for values that the driver does not report.
    SystemSample sample() const;
    /// Returns the number of NVLinks that are up.
    int nvlinks() const;
    /// Returns "18 NVLinks of version 4, PCIe generation 5 x16"; empty if not known.
    std::string links() const;
    /// Returns the serial number on the board's label; empty if not known, as for consumer GPUs.
    std::string serial() const;
    /// Returns the processes that compute on the GPU now: "process 4242 (3.0 GiB) and process 7
    /// (0.5 GiB)". Leaves out the server of CUDA's multi-process service. Empty if there are none
    /// or they are not known.
    std::string processes() const;
    /// Returns the GPU's settings, links and error counters by name, such as ("ECC", "on") and
    /// ("PCIe width", "8 of 16"). Leaves out what the driver does not report.
    Facts health() const;
    /// Returns the version of the driver, which all GPUs share: "580.65.06"; empty without a
    /// driver.
    std::string driver() const;

    /// Loads libnvidia-ml.so.1 of the machine's driver.
    static Lookup library();

private:
    bool is_up(unsigned link) const;
    void add_settings(Facts&) const;
    void add_links(Facts&) const;
    void add_memory_errors(Facts&) const;
    /// Returns the reasons for which the driver lowers the clock now: "power cap and heat"; empty
    /// if it does not report them, "nothing" if there are none.
    std::string throttled_by() const;
    /// Returns the name of the program that a process runs, "python3"; empty if not known.
    std::string program_of(unsigned pid) const;
    template <class... Args> bool call(const char* function, Args... args) const;
    /// Returns the answer of a function that writes one number about the GPU; empty if it fails.
    template <class Number, class... Args> std::optional<Number> number(const char* function, Args... args) const;

    Lookup lookup_;
    void* device_ = nullptr;
};

}  // namespace convoy::cuda
