// Which backend --device means.
#include "backend/backend.h"

namespace convoy {

std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions& options, Comm& comm) {
    if (device == "cpu") return make_cpu_backend(options, comm);
    if (device == "cuda") return make_cuda_backend(options, comm);
    if (device == "auto") return cuda_unavailable().empty() ? make_cuda_backend(options, comm) : make_cpu_backend(options, comm);
    fail(Exit::usage, "--device " + device + " is unknown; choose auto, cuda or cpu");
}

}  // namespace convoy
