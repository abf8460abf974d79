// What the CUDA backend offers to the rest of Convoy: one table of functions. It is a shared object of its own, beside the executable, so that
// the executable starts where none of CUDA's libraries is.
#pragma once
#include <memory>
#include <string>

#include "backend/backend.h"

namespace convoy {

namespace cuda {
std::unique_ptr<Backend> make_backend(const BackendOptions&, Comm&);
std::string unavailable();
Versions versions();
std::string plan_table(const Graph&, int batch, Precision, const std::string& chip);
}  // namespace cuda

/// The functions of backend.h that are the CUDA backend's, by their names there.
struct CudaEntry {
    const char* commit;  ///< that it was built from; first, so that it can be read whatever another build has behind it
    std::unique_ptr<Backend> (*make_backend)(const BackendOptions&, Comm&);
    std::string (*unavailable)();
    Versions (*versions)();
    std::string (*plan_table)(const Graph&, int batch, Precision, const std::string& chip);
};

/// The table, under this name in the shared object.
extern "C" const CudaEntry convoy_cuda;

}  // namespace convoy
