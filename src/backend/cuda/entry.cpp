// The one symbol that is looked up in the shared object. CONVOY_COMMIT comes from the Makefile.
#include "backend/cuda_entry.h"

namespace convoy {

// NOLINTNEXTLINE(readability-redundant-declaration): the header declares it
extern "C" const CudaEntry convoy_cuda = {.commit = CONVOY_COMMIT,
                                          .make_backend = cuda::make_backend,
                                          .unavailable = cuda::unavailable,
                                          .versions = cuda::versions,
                                          .plan_table = cuda::plan_table};

}  // namespace convoy
