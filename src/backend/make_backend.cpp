// Creates the backend that --device names.
#include <cstdio>

#include "backend/cuda_queries.h"
#include "base/text.h"
#include "comm/comm.h"

namespace convoy {

std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions& options, Comm& comm) {
    if (device == "cpu") return make_cpu_backend(options, comm);
    if (device == "cuda") return make_cuda_backend(options, comm);
    if (device == "auto") {  // all ranks decide alike
        const std::string reason = cuda_unavailable();
        if (comm.max(int64_t(reason.empty())) == 0) {
            // Warn, because a GPU may be present but unused.
            if (const std::string problem = cuda_unloadable(); comm.root() && !problem.empty())
                std::fprintf(stderr, "warning: --device auto takes the CPU: %s\n", printable(problem).c_str());
            return make_cpu_backend(options, comm);
        }
        comm.together([&] {
            if (!reason.empty())
                fail(Exit::usage, "--device auto: other ranks have a GPU, but not this one on " + comm.host() + ": " +
                                      reason + "; choose cuda or cpu");
        });
        return make_cuda_backend(options, comm);
    }
    fail_everywhere(Exit::usage, "--device " + device + " is unknown; choose auto, cuda or cpu");
}

}  // namespace convoy
