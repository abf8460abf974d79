// The CUDA backend is a shared object next to the executable, reached by this table of functions.
// So the executable also starts on machines without CUDA's libraries.
#pragma once
#include <memory>
#include <string>

#include "backend/cuda_queries.h"

namespace convoy {

namespace cuda {
std::unique_ptr<Backend> make_backend(const BackendOptions&, Comm&);
std::string unavailable();
Versions versions();
std::string plan_table(const Graph&, const StepSpec&, const std::string& chip);
int first_capability();
bool probe_plans(const std::vector<PlanSpec>&, const std::function<void(const std::string&)>& say);
}  // namespace cuda

/// The functions of the shared object, which those of cuda_queries.h call.
struct CudaEntry {
    /// the commit that the object was built from; the first field, so that any build can read it
    const char* commit;
    std::unique_ptr<Backend> (*make_backend)(const BackendOptions&, Comm&);
    std::string (*unavailable)();
    Versions (*versions)();
    std::string (*plan_table)(const Graph&, const StepSpec&, const std::string& chip);
    int (*first_capability)();
    bool (*probe_plans)(const std::vector<cuda::PlanSpec>&, const std::function<void(const std::string&)>& say);
};

/// The table's symbol in the shared object.
extern "C" const CudaEntry convoy_cuda;

}  // namespace convoy
