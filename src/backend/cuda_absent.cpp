// Linked in place of backend/cuda: reports that the executable was built without it.
#include "backend/cuda_queries.h"

namespace convoy {

std::string cuda_unavailable() { return "this executable was built without the CUDA backend"; }

std::string cuda_unloadable() { return ""; }

Versions cuda_versions() { return {}; }

std::vector<CudaLibrary> cuda_libraries() { return {}; }

std::string plan_table(const Graph&, const StepSpec&, const std::string&) {
    fail(Exit::usage, "--plans: " + cuda_unavailable());
}

int first_capability() { fail(Exit::usage, "--run: " + cuda_unavailable()); }

bool probe_plans(const std::vector<cuda::PlanSpec>&, const std::function<void(const std::string&)>&) {
    return first_capability() > 0;
}

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions&, Comm&) {
    fail_everywhere(Exit::usage, "--device cuda: " + cuda_unavailable() + "; use --device cpu");
}

}  // namespace convoy
