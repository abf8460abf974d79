// The CPU backend: oneDNN for convolutions, pooling and GEMMs, OpenMP loops for what oneDNN cannot
// fuse, MPI for all-reduces. Its "device" memory is the host's, so a tape runs as a loop.
#pragma once
#include <dnnl.hpp>

#include <atomic>
#include <optional>

#include "backend/backend.h"
#include "backend/cpu/conv_algorithms.h"
#include "base/memory.h"
#include "base/memory_budget.h"

namespace convoy::cpu {

struct ConvCall;          // conv_calls.h
class ExactAdder;         // exact_adder.h
class GradientAllReduce;  // gradient_all_reduce.h
struct Temporary;         // primitives.h

/// Returns seconds on a steady clock.
double now();

/// When the running step began, and when it had its batch, in seconds on a steady clock.
struct StepClock {
    double started = 0, gathered = 0;
};

/// Sets the number of threads of this thread's parallel regions, and restores it when destroyed.
class ThreadCount {
public:
    explicit ThreadCount(int threads);
    ~ThreadCount();
    ThreadCount(const ThreadCount&) = delete;

private:
    int before_;
};

class CpuBackend : public Backend {
public:
    /// `options.threads` must be set. Collective over the ranks of a node if `budget` is not given.
    CpuBackend(const BackendOptions& options, Comm&, const std::string& placement = "",
               std::optional<MemoryBudget> budget = {});
    ~CpuBackend() override;

    SystemSample sample() override;
    size_t memory_taken() const override { return peak_memory(); }
    Buffer allocate(size_t bytes) override;
    void set_aside(size_t bytes, const std::string& what_for, MemoryOwner) override;
    Buffer resident(void* host, size_t bytes) override;
    void upload(void* to, const void* from, size_t bytes) override;
    void download(void* to, const void* from, size_t bytes) override;
    void tune(const ProgramShape&) override;
    std::shared_ptr<const Algorithms> select(const ProgramShape&) override;
    std::string tuning() const override;
    void restore_tuning(const std::string&) override;

    void forward(const Op&, const OpArguments&, Tape&) override;
    void backward(const Op&, const OpArguments&, Tape&) override;
    std::unique_ptr<Feed> feed(int rows, size_t image_bytes, int ahead) override;
    void gather(const Gather&, Tape&) override;
    void zero(Tensor, Tape&) override;
    void add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&) override;
    void request(const Requests*, BatchStats*, BatchStats* own, Tape&) override;
    void allreduce(Tensor bucket, size_t counts, Tape&) override;
    void allreduce_into(Tensor from, Tensor to, Tape&) override;
    Backend& lane(int) override;
    void side_by_side(const std::vector<Tape>&, Tape&) override;
    void accumulate_exact(const ExactSums&, const float* gradients, size_t begin, size_t end, Tape&) override;
    void allreduce(const ExactSums&, size_t begin, size_t end, Tape&) override;
    void finalize_exact(const ExactSums&, float* gradients, Tape&) override;
    void wait_allreduce(Tape&) override;
    void update(const Update&, Tape&) override;
    void look_ahead(const LookAhead&, Tape&) override;
    void record(const Record&, Tape&) override;
    void checksum(const Checksum&, Tape&) override;
    void accumulate(const BatchStats*, EvalTotals*, int64_t, Counters*, int64_t, Tape&) override;
    std::function<void()> finish(Tape) override;
    std::vector<double> time_launches(const Tape&) override;
    void trace(std::vector<Span>*) override;
    void synchronize() override {}
    void pause(double seconds) override { paused_until_ = now() + seconds; }

private:
    /// Creates lane `index` of another backend. A lane has one thread, and its own temporary
    /// memory.
    CpuBackend(CpuBackend& whole, int index);
    void run_launch(const Launch&);

    // The functions of an op are in the file with its name.
#define CONVOY_DECLARE(O)                              \
    void forward(const O&, const OpArguments&, Tape&); \
    void backward(const O&, const OpArguments&, Tape&);
    CONVOY_EACH_OP(CONVOY_DECLARE)
#undef CONVOY_DECLARE
    /// Returns the bytes in which oneDNN remembers the positions of maxima (pool.cpp).
    size_t pool_workspace(const Pool&, const Graph&, int batch) const;
    /// Appends one direction of a convolution.
    void append(const OpArguments&, LaunchPhase direction, const std::string& name, const ConvCall&, ConvBy, Tape&);
    /// Returns the threads that compute a convolution: one where logical ranks are computed side by
    /// side.
    int conv_threads() const { return options_.invariant ? 1 : threads_; }
    /// Returns the convolutions of a program for which no algorithm is chosen yet.
    std::vector<ConvSpec> unknown(const ProgramShape&) const;
    TunedConvs measure(const std::vector<ConvSpec>&);
    /// Appends: to [c] = sum over the rows (pixels) of dy (conv.cpp).
    void bias_gradient(const Tensor& dy, float* to, const LaunchId&, Tape&);
    /// Appends add_scaled() under this identity.
    void scale(LaunchId, const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&);
    void sum_now(double* values, int count);  // calls GradientAllReduce::sum_now; for files without mpi.h

    Comm& comm_;
    BackendOptions options_;
    int threads_ = 1;
    std::shared_ptr<MemoryBudget> budget_;  // memory left when the backend was created; shared by its lanes
    dnnl::engine engine_;
    dnnl::stream stream_;
    std::shared_ptr<Temporary> temporary_;
    // A lane shares these with the backend that owns it:
    std::shared_ptr<GradientAllReduce> all_reduce_;
    std::shared_ptr<ExactAdder> adder_;
    std::shared_ptr<StepClock> clock_;
    const int index_ = 0;  // index of the lane
    std::vector<std::unique_ptr<CpuBackend>> lanes_;
    const Capabilities has_;
    TunedConvs tuned_;  // times of all convolutions so far; empty: not measured
    std::vector<Span>* trace_ = nullptr;
    std::atomic<double> paused_until_{0};  // on a steady clock
    double sampled_ = now(), used_ = 0;    // time of the last sample, and the processor seconds used until then
};

}  // namespace convoy::cpu
