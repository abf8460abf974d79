// Linked into the test programs instead of src/backend/cuda_loaded.cpp, because they contain the
// CUDA backend's objects, for tests of its parts.
#include "backend/cuda_entry.h"

namespace convoy {

std::string cuda_unavailable() { return cuda::unavailable(); }

std::string cuda_unloadable() { return ""; }

Versions cuda_versions() { return cuda::versions(); }

std::vector<CudaLibrary> cuda_libraries() { return {}; }

std::string plan_table(const Graph& graph, const StepSpec& step, const std::string& chip) {
    return cuda::plan_table(graph, step, chip);
}

int first_capability() { return cuda::first_capability(); }

bool probe_plans(const std::vector<cuda::PlanSpec>& specs, const std::function<void(const std::string&)>& say) {
    return cuda::probe_plans(specs, say);
}

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options, Comm& comm) {
    return cuda::make_backend(options, comm);
}

}  // namespace convoy
