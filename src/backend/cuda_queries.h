// What only the CUDA backend offers: how to make it, why it is missing, its libraries and plans.
// An executable without it answers all the same (cuda_absent.cpp).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace convoy {

/// How batch norm runs on GPUs: in the fastest of the ways below, or in one of them wherever it
/// exists: fused into convolutions, cuDNN's plans, our kernels.
enum class NormBy : uint8_t { measured, convolutions, plans, kernels };

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions&, Comm&);
/// Why there is no CUDA device here, or an empty string if there is one.
std::string cuda_unavailable();
/// Why the CUDA backend that belongs to this executable cannot be loaded; empty if it can, or if
/// there is none.
std::string cuda_unloadable();
/// Versions of what the CUDA backend was built with and finds; empty without one.
Versions cuda_versions();
/// A shared library, and the file that the loader finds for it; empty path: missing.
struct CudaLibrary {
    std::string name, path;
};
/// The CUDA backend's own shared object, and the libraries that only it needs; empty if there is no
/// such object.
std::vector<CudaLibrary> cuda_libraries();
/// A model's training step, of which plan_table() tells.
struct PlannedStep {
    int batch = 1;  ///< samples of a rank
    Precision precision = Precision::f32;
    NormBy norm_by{};
    bool sync_bn = false;
    int ranks = 1;
    bool one_stream = false;  ///< BackendOptions::one_stream
};
/// What cuDNN has for a step on a chip ("h100", "a100"), which need not be here. Throws
/// Exit::usage.
std::string plan_table(const Graph&, const PlannedStep&, const std::string& chip);

}  // namespace convoy
