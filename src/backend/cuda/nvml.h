// What the driver's management library says of one GPU: how busy it is, and how it is linked. The
// library comes with the driver, so it is looked for at run time; without it nothing is known, and
// nothing fails.
#pragma once
#include <functional>
#include <string>

#include "backend/backend.h"

namespace convoy::cuda {

class Nvml {
public:
    /// Finds a function of the library by name; null if it has none.
    using Lookup = std::function<void*(const char*)>;
    /// `bus`: the GPU's PCI bus id, as CUDA gives it.
    explicit Nvml(const std::string& bus, Lookup = library());
    ~Nvml();
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    /// NaN where the driver does not say.
    SystemSample sample() const;
    /// NVLinks that are up.
    int nvlinks() const;
    /// "18 NVLinks of version 4, PCIe generation 5 x16"; empty if the driver does not say.
    std::string links() const;
    /// The board's serial number, as on its label; empty if the driver does not say, as of GPUs for
    /// homes.
    std::string serial() const;
    /// "process 4242 (3.0 GiB) and process 7 (0.5 GiB)": those that compute on the GPU now, but for
    /// the server of CUDA's multi-process service; empty if there are none, or the driver does not
    /// say.
    std::string processes() const;
    /// "580.65.06"; empty without a driver. It is that of every GPU.
    std::string driver() const;

    /// libnvidia-ml.so.1 of the machine's driver.
    static Lookup library();

private:
    bool is_up(unsigned link) const;
    /// "python3", the program that a process runs; empty if the driver does not say.
    std::string program_of(unsigned pid) const;
    template <class... Args> bool call(const char* function, Args... args) const;

    Lookup lookup_;
    void* device_ = nullptr;
};

}  // namespace convoy::cuda
