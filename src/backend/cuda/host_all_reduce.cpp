// All-reduces through host memory and MPI, for ranks that share a GPU, which NCCL does not support.
// They do not overlap with compute: this is for tests and experiments, not for speed.
#include <vector>

#include "backend/cuda/gradient_all_reduce.h"
#include "backend/cuda/handles.h"
#include "comm/native.h"

namespace convoy::cuda {
namespace {

class HostAllReduce final : public GradientAllReduce {
public:
    HostAllReduce(Comm& comm, cudaStream_t compute) : comm_(comm.native().gradients), compute_(compute) {}

    void start(float* values, size_t count, size_t) override { reduce(values, values, count, MPI_FLOAT); }
    void start_into(const float* from, float* to, size_t count) override { reduce(from, to, count, MPI_FLOAT); }
    void start(int64_t* values, size_t count) override { reduce(values, values, count, MPI_INT64_T); }
    void start_largest(int32_t* values, size_t count) override { reduce(values, values, count, MPI_INT32_T, MPI_MAX); }
    void wait() override {}
    void sum_now(double* values, int count) override { reduce(values, values, size_t(count), MPI_DOUBLE); }
    bool capturable() const override { return false; }
    Buffer allocate(size_t) override { return nullptr; }
    std::set<std::string> transports() const override { return {"the memory of the host"}; }
    void poll() override {}  // not needed, because MPI errors end the job

private:
    template <class T> void reduce(const T* from, T* to, size_t count, MPI_Datatype type, MPI_Op op = MPI_SUM) {
        const size_t bytes = count * sizeof(T);
        host_.resize(std::max(host_.size(), bytes));
        check(cudaMemcpyAsync(host_.data(), from, bytes, cudaMemcpyDeviceToHost, compute_),
              "copying gradients to the host");
        check(cudaStreamSynchronize(compute_), "computing gradients");
        MPI_Allreduce(MPI_IN_PLACE, host_.data(), int(count), type, op, comm_);
        check(cudaMemcpyAsync(to, host_.data(), bytes, cudaMemcpyHostToDevice, compute_),
              "copying gradients to the device");
        check(cudaStreamSynchronize(compute_), "copying gradients to the device");
    }

    MPI_Comm comm_;
    cudaStream_t compute_;
    std::vector<char> host_;
};

}  // namespace

std::unique_ptr<GradientAllReduce> all_reduce_through_host(Comm& comm, cudaStream_t compute) {
    return std::make_unique<HostAllReduce>(comm, compute);
}

}  // namespace convoy::cuda
