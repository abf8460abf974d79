// The CPU backend: oneDNN for convolutions, pooling and matrix products, OpenMP loops for what it cannot fuse, MPI for sums.
// Its "device" memory is host memory, so a step is a loop over closures that hold pointers.
#pragma once
#include <dnnl.hpp>

#include <atomic>
#include <optional>

#include "backend/backend.h"
#include "base/memory.h"
#include "base/memory_budget.h"

namespace convoy {

class GradientSums;  // allreduce.cpp
struct Temporary;    // primitives.h

/// Seconds on a steady clock.
double now();

class CpuBackend : public Backend {
public:
    /// `options.threads` is given. Collective over the ranks of a node if `budget` is not.
    CpuBackend(const BackendOptions& options, Comm&, const std::string& placement = "", std::optional<MemoryBudget> budget = {});
    ~CpuBackend() override;

    std::string device() const override;
    int threads() const override { return threads_; }
    std::string placement() const override { return placement_; }
    std::string links() const override { return ""; }
    int channel_multiple() const override { return 1; }
    SystemSample sample() override;
    std::shared_ptr<void> range(const std::string&) const override { return nullptr; }
    size_t memory_taken() const override { return peak_memory(); }
    Buffer allocate(size_t bytes) override;
    void set_aside(size_t bytes, const std::string& what_for, Taker) override;
    Buffer resident(void* host, size_t bytes) override;
    void upload(void* to, const void* from, size_t bytes) override;
    void download(void* to, const void* from, size_t bytes) override;
    Tensor kept_state() override { return {nullptr, {0, 1, 1, 0}, DType::f32}; }
    size_t saved_bytes(const Op&, const Graph&, int batch) override;

    void forward(const Conv&, const Bound&, Tape&) override;
    void forward(const BatchNorm&, const Bound&, Tape&) override;
    void forward(const Relu&, const Bound&, Tape&) override;
    void forward(const Gelu&, const Bound&, Tape&) override;
    void forward(const Scale&, const Bound&, Tape&) override;
    void forward(const Add&, const Bound&, Tape&) override;
    void forward(const Pool&, const Bound&, Tape&) override;
    void forward(const PadShortcut&, const Bound&, Tape&) override;
    void forward(const Linear&, const Bound&, Tape&) override;
    void forward(const Dropout&, const Bound&, Tape&) override;
    void forward(const SoftmaxXent&, const Bound&, Tape&) override;
    void backward(const Conv&, const Bound&, Tape&) override;
    void backward(const BatchNorm&, const Bound&, Tape&) override;
    void backward(const Relu&, const Bound&, Tape&) override;
    void backward(const Gelu&, const Bound&, Tape&) override;
    void backward(const Scale&, const Bound&, Tape&) override;
    void backward(const Add&, const Bound&, Tape&) override;
    void backward(const Pool&, const Bound&, Tape&) override;
    void backward(const PadShortcut&, const Bound&, Tape&) override;
    void backward(const Linear&, const Bound&, Tape&) override;
    void backward(const Dropout&, const Bound&, Tape&) override;
    void backward(const SoftmaxXent&, const Bound&, Tape&) override;

    void gather(const Gather&, Tape&) override;
    void zero(Tensor, Tape&) override;
    void add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&) override;
    void request(const Requests*, BatchStats*, Tape&) override;
    void allreduce(Tensor bucket, Tape&) override;
    void wait_allreduce(Tape&) override;
    void update(const Update&, Tape&) override;
    void look_ahead(const LookAhead&, Tape&) override;
    void record(const BatchStats*, const float*, StepRecord*, int64_t, Counters*, int64_t, Tape&) override;
    void accumulate(const BatchStats*, EvalTotals*, int64_t, Counters*, int64_t, Tape&) override;
    std::function<void()> finish(Tape) override;
    void trace(std::vector<Span>*) override;
    void synchronize() override {}
    void pause(double seconds) override { paused_until_ = now() + seconds; }
    bool synchronous() const override { return true; }

private:
    void weight_gradient(const Conv&, const Bound&, Tape&);
    void data_gradient(const Conv&, const Bound&, Tape&);
    /// The type in which convolutions multiply values of this type: bf16 where the processor is faster in it, and then weights are
    /// rounded to it too; else f32, which holds products of bf16 exactly.
    DType products_of(DType) const;
    /// to [c] = sum over the rows (pixels) of dy; conv.cpp.
    void bias_gradient(const Tensor& dy, float* to, const std::string& name, Tape&);
    void sum_now(double* values, int count);  // GradientSums::sum_now, for files without mpi.h

    Comm& comm_;
    BackendOptions options_;
    std::string placement_;
    int threads_ = 1;
    MemoryBudget budget_;  // of what there was when the backends were made
    dnnl::engine engine_;
    dnnl::stream stream_;
    std::shared_ptr<Temporary> temporary_;
    std::unique_ptr<GradientSums> sums_;
    const bool multiplies_bf16_;
    std::vector<Span>* trace_ = nullptr;
    std::atomic<double> paused_until_{0};  // on a steady clock
    double step_started_ = 0, gathered_ = 0;  // seconds on a steady clock
    double sampled_ = now(), used_ = 0;       // of the last sample: when, and processor seconds until then
};

}  // namespace convoy
