// Functions of the CUDA backend alone: they create it, say why it is unavailable, and list its
// libraries and plans. An executable without that backend has these functions too
// (cuda_absent.cpp).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace convoy {

namespace cuda {
struct PlanSpec;
}

/// The batch norm algorithm on GPUs: the fastest one, or a named one wherever it exists. The named
/// ones are: fused into convolutions, cuDNN's plans, our kernels.
enum class NormBy : uint8_t { measured, convolutions, plans, kernels };

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions&, Comm&);
/// Returns why there is no CUDA device here; empty if there is one.
std::string cuda_unavailable();
/// Returns why this executable's CUDA backend cannot be loaded. Empty if it can, or if the
/// executable was built without it.
std::string cuda_unloadable();
/// Returns the versions of libraries that the CUDA backend was built with and found; empty without
/// a backend.
Versions cuda_versions();
/// A shared library and the file that the loader finds for it; empty path: missing.
struct CudaLibrary {
    std::string name, path;
};
/// Returns the CUDA backend's own shared object and the libraries that only it needs. Empty if the
/// executable was built without that backend.
std::vector<CudaLibrary> cuda_libraries();
/// The training step that plan_table() describes.
struct StepSpec {
    int batch = 1;  ///< samples per rank
    Precision precision = Precision::f32;
    NormBy norm_by{};
    bool sync_bn = false;
    int ranks = 1;
    bool one_stream = false;  ///< see BackendOptions
};
/// Returns a table of what cuDNN offers for a step on a chip ("h100", "a100"), which may be absent.
/// Throws Exit::usage.
std::string plan_table(const Graph&, const StepSpec&, const std::string& chip);
/// Returns the first visible GPU's compute capability: 90 for 9.0. Throws Exit::usage if none.
int first_capability();
/// Seconds that one of cuDNN's engines may take in probe_plans().
constexpr unsigned probe_seconds = 30;
/// Runs these plans on the first visible GPU. Calls `say` with a line for each, after lines "trying
/// KEY = ENGINE" for each engine that it is about to build and run. Returns true if all were right.
/// Ends the process if an engine takes longer than `probe_seconds`.
bool probe_plans(const std::vector<cuda::PlanSpec>&, const std::function<void(const std::string&)>& say);

}  // namespace convoy
