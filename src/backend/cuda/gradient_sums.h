// Sums over ranks: by NCCL on a stream of its own, or through the host if ranks share a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <set>
#include <string>

#include "backend/backend.h"

namespace convoy::cuda {

class GradientSums {
public:
    virtual ~GradientSums() = default;
    /// Sums count floats over ranks in place, after all work the compute stream has so far; the
    /// first `exact` in f32 whatever is sent otherwise. In bf16 the rest is a multiple of
    /// stats_elements.
    virtual void start(float* values, size_t count, size_t exact) = 0;
    /// As start(): sums integers, and takes the largest of each.
    virtual void start(int64_t* values, size_t count) = 0;
    virtual void start_largest(int32_t* values, size_t count) = 0;
    /// The compute stream waits for all that was started so far.
    virtual void wait() = 0;
    /// Sums doubles on the compute stream itself.
    virtual void sum_now(double* values, int count) = 0;
    /// Whether a CUDA graph can hold these sums.
    virtual bool capturable() const = 0;
    /// Memory in which the sums are fastest; null if any will do.
    virtual Buffer allocate(size_t bytes) = 0;
    /// What this rank's sums go over: "P2P/CUMEM", "NET/IB/GDRDMA"; empty if that is not known.
    virtual std::set<std::string> transports() const = 0;
    /// Throws Exit::comm if a sum failed or another rank is gone.
    virtual void poll() = 0;
};

/// Collective. With equal streams nothing overlaps. Sums in the middle of compute need that: one
/// communicator takes one order.
std::unique_ptr<GradientSums> connect_by_nccl(Comm&, cudaStream_t compute, cudaStream_t communication, bool in_bf16,
                                              Backend&);
std::unique_ptr<GradientSums> sums_through_host(Comm&, cudaStream_t compute);

}  // namespace convoy::cuda
