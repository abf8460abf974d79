// All-reduces: by NCCL on a separate stream, or through the host if ranks share a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <set>
#include <string>

#include "backend/backend.h"

namespace convoy::cuda {

class GradientAllReduce {
public:
    virtual ~GradientAllReduce() = default;
    /// Starts an all-reduce (sum) of `count` floats in place, after all work that the compute
    /// stream has so far. The first `exact` floats are always summed in f32. If the others are sent
    /// in bf16, their number must be a multiple of stats_elements.
    virtual void start(float* values, size_t count, size_t exact) = 0;
    /// Starts an all-reduce (sum) of floats out of place, always in f32.
    virtual void start_into(const float* from, float* to, size_t count) = 0;
    /// Starts an all-reduce (sum) of integers, like start() of floats.
    virtual void start(int64_t* values, size_t count) = 0;
    /// Starts an all-reduce that takes the maximum of each element.
    virtual void start_largest(int32_t* values, size_t count) = 0;
    /// Makes the compute stream wait for all all-reduces that were started so far.
    virtual void wait() = 0;
    /// All-reduces (sums) doubles in place on the compute stream itself.
    virtual void sum_now(double* values, int count) = 0;
    /// Returns true if a CUDA graph can contain these all-reduces.
    virtual bool capturable() const = 0;
    /// Allocates memory in which all-reduces are fastest; null if ordinary memory will do.
    virtual Buffer allocate(size_t bytes) = 0;
    /// Returns the transports of this rank: "P2P/CUMEM", "NET/IB/GDRDMA"; empty if not known.
    virtual std::set<std::string> transports() const = 0;
    /// Throws Exit::comm if an all-reduce failed or another rank is gone.
    virtual void poll() = 0;
};

/// Connects the ranks by NCCL. Collective. With `communication` == `compute` nothing overlaps. That
/// is required for sum_now(), because a communicator needs one order of calls on all ranks.
std::unique_ptr<GradientAllReduce> connect_by_nccl(Comm&, cudaStream_t compute, cudaStream_t communication,
                                                   bool in_bf16, TensorMemory&);
/// Sends all-reduces through host memory and MPI, for ranks that share a GPU.
std::unique_ptr<GradientAllReduce> all_reduce_through_host(Comm&, cudaStream_t compute);

}  // namespace convoy::cuda
