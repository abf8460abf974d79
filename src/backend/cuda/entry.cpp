// The only symbol that the executable looks up in this shared object. The Makefile defines
// CONVOY_COMMIT.
#include "backend/cuda_entry.h"

namespace convoy {

// NOLINTNEXTLINE(readability-redundant-declaration): the header declares it
extern "C" const CudaEntry convoy_cuda = {.commit = CONVOY_COMMIT,
                                          .make_backend = cuda::make_backend,
                                          .unavailable = cuda::unavailable,
                                          .versions = cuda::versions,
                                          .plan_table = cuda::plan_table,
                                          .first_capability = cuda::first_capability,
                                          .probe_plans = cuda::probe_plans};

}  // namespace convoy
