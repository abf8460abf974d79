// The CUDA backend of one rank on one GPU. It has three streams: for cuDNN plans and the kernels of
// kernels/, for NCCL, and for small weight gradients. A feed has a separate stream. Launches are
// asynchronous. A tape's first run is eager, the second is captured as one CUDA graph.
#pragma once
#include <optional>
#include <set>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/gradient_all_reduce.h"
#include "backend/cuda/handles.h"
#include "backend/cuda/nvml.h"
#include "backend/cuda/plans.h"
#include "backend/cuda/rank_tuning.h"
#include "backend/cuda/weight_copies.h"
#include "backend/cuda/workspace.h"
#include "backend/cuda_entry.h"
#include "kernels/kernels.h"

namespace convoy::cuda {

class CudaBackend final : public Backend {
public:
    /// Uses the current device. `threads`: number of threads that build plans while the calling one
    /// times them. An error concerns this rank alone, so construct it within Comm::together().
    CudaBackend(const BackendOptions&, const DeviceInfo&, Comm&, int threads, const std::string& placement);
    ~CudaBackend() override;
    /// Connects to the other ranks. Collective.
    void connect();

    SystemSample sample() override { return nvml_.sample(); }
    Facts health() const override;
    std::shared_ptr<void> range(const std::string& name) const override;
    size_t memory_taken() const override;
    std::optional<size_t> device_memory_free() const override;
    Buffer allocate(size_t bytes) override;
    Buffer allocate_reduced(size_t bytes) override;
    Buffer resident(void* host, size_t bytes) override;
    Buffer mapped(void* host, size_t bytes) override;
    Buffer allocate_shared(size_t bytes) override;
    void upload(void* to, const void* from, size_t bytes) override;
    void download(void* to, const void* from, size_t bytes) override;
    Tensor kept_state() override;
    void tune(const ProgramShape&) override;
    std::shared_ptr<const Algorithms> select(const ProgramShape&) override;
    std::string tuning() const override;
    void restore_tuning(const std::string&) override;

    void forward(const Op&, const OpArguments&, Tape&) override;
    void backward(const Op&, const OpArguments&, Tape&) override;
    void finish_gradients(Tape&) override;
    std::unique_ptr<Feed> feed(int rows, size_t image_bytes, int ahead) override;
    void gather(const Gather&, Tape&) override;
    void zero(Tensor, Tape&) override;
    void add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&) override;
    void request(const Requests*, BatchStats*, BatchStats* own, Tape&) override;
    void allreduce(Tensor bucket, size_t counts, Tape&) override;
    void allreduce_into(Tensor from, Tensor to, Tape&) override;
    void wait_allreduce(Tape&) override;
    void accumulate_exact(const ExactSums&, const float* gradients, size_t begin, size_t end, Tape&) override;
    void allreduce(const ExactSums&, size_t begin, size_t end, Tape&) override;
    void finalize_exact(const ExactSums&, float* gradients, Tape&) override;
    void update(const Update&, Tape&) override;
    void look_ahead(const LookAhead&, Tape&) override;
    void record(const Record&, Tape&) override;
    void checksum(const Checksum&, Tape&) override;
    void accumulate(const BatchStats*, EvalTotals*, int64_t, Counters*, int64_t, Tape&) override;
    std::function<void()> finish(Tape) override;
    std::vector<double> time_launches(const Tape&) override;
    void synchronize() override;
    std::function<void()> mark() override;

private:
    // The functions of an op are in the file with its name.
#define CONVOY_DECLARE(O)                              \
    void forward(const O&, const OpArguments&, Tape&); \
    void backward(const O&, const OpArguments&, Tape&);
    CONVOY_EACH_OP(CONVOY_DECLARE)
#undef CONVOY_DECLARE
    /// Branches compute at the same time. Each has a stream and a workspace. `side` has work only
    /// between fork() and join().
    enum class Branch { main, side };
    /// An operand of a plan: at a fixed address, or a part of a workspace, whose address is looked
    /// up when the launch runs.
    struct Operand {
        Slot slot;
        void* data = nullptr;
        std::optional<Workspace::Part> part{};
        Workspace* of = nullptr;  ///< the workspace that holds `part`; null: the main branch's
    };
    cudaStream_t stream_of(Branch b) const { return b == Branch::main ? compute_.get() : side_.get(); }
    const std::shared_ptr<Workspace>& workspace_of(Branch b) const {
        return b == Branch::main ? workspace_ : side_workspace_;
    }
    /// Appends a launch on a branch's stream. The function must not block.
    void append(Tape&, LaunchId, std::function<void(cudaStream_t)>, Branch = Branch::main);
    /// Appends a launch of a plan. The plan's workspace is placed behind those operands that lie in
    /// the branch's workspace.
    void append(Tape&, LaunchId, const Plan&, const std::vector<Operand>&, Branch = Branch::main);
    /// Makes the side branch wait for all work of the main branch so far.
    void fork(Tape&, const LaunchId&);
    /// Makes the main branch wait for all work of the side branch so far.
    void join(Tape&, const LaunchId&);
    /// Returns the id of a further launch of the same work.
    static LaunchId followed(LaunchId, const std::string& what);
    /// Returns the id of one launch that does the work of this one and of the earlier op `op`:
    /// "pool and batch norm …".
    static LaunchId fused_with(LaunchId, const std::string& with, int op);
    /// Appends add_scaled() as a launch with this id.
    void scale(LaunchId, const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&);
    Plans::Options plan_options(int threads);
    /// Runs select() on the ranks that pass a program; the other ranks wait for them. Collective.
    void select_together(const ProgramShape*);
    /// Returns a plan that select() chose; throws Exit::usage if cuDNN has no engine for it.
    const Plan& plan(const PlanSpec&);
    static const OpAlgorithm& algorithm_of(const OpArguments& b) {
        return static_cast<const GpuAlgorithms&>(b.algorithms).per_op[b.op];
    }
    /// Returns a weight in the type and padding that plans need: a copy, or the master itself.
    void* weight(const Tensor& master, const CopyShape&);
    // Shared by convolutions and linear layers; defined in conv.cpp. `dy` goes into slot dy.
    /// Returns the inputs of a convolution's plans: x or, if the plans also normalise, the input
    /// and the vectors of that batch norm.
    std::vector<Operand> conv_input(const Conv&, const OpArguments&);
    /// Returns further operands of a data gradient that also computes sums. The gradient of the
    /// batch norm that writes x needs them. Empty if it computes none.
    std::vector<Operand> norm_sums(const OpArguments&);
    /// Appends a weight gradient. It is written to its place in the f32 arena: by its plan in f32,
    /// else by finish_gradients(). If the algorithm says so, it runs on the side branch, and the
    /// caller joins it after the data gradient.
    void weight_gradient(Tape&, const LaunchId&, const GemmAlgorithm&, const Operand& dy, std::vector<Operand> x,
                         const Tensor& gradient, const CopyShape&);
    /// Appends a data gradient, which writes dx or adds to it. `more`: further operands of the
    /// plan.
    void data_gradient(Tape&, const LaunchId&, const PlanSpec&, const Operand& dy, void* weight, const Tensor& dx,
                       bool accumulate, const std::vector<Operand>& more = {});
    void add_bias(Tape&, const LaunchId&, const Tensor& from, std::optional<Workspace::Part> from_part,
                  const Tensor& bias, const Tensor& to);
    void bias_gradient(Tape&, const LaunchId&, const Tensor& dy, const Tensor& gradient);

    Buffer cleared(Buffer, size_t bytes);
    struct ExactRanges {
        std::vector<ExactRange> host;
        Buffer device;
        const ExactRange* table() const { return static_cast<const ExactRange*>(device.get()); }
        int count() const { return int(host.size()); }
    };
    ExactRanges exact_ranges(const ExactSums&, size_t begin, size_t end);
    // batchnorm.cpp
    void forward_by_plan(const BatchNorm&, const OpArguments&, Tape&);
    void forward_over_ranks(const kernels::BatchNormArgs&, LaunchId, Tape&);
    void backward_by_plan(const BatchNorm&, const OpArguments&, const kernels::BatchNormGradients&, Tape&);
    void backward_over_ranks(const kernels::BatchNormArgs&, const kernels::BatchNormGradients&, const LaunchId&, Tape&);
    /// Copies the running statistics that plans wrote to their final place. It comes after the
    /// forward of all ops.
    void commit_running(const OpArguments&, Tape&);
    /// Prints each line about the selection of plans once. Only rank 0 prints; lines of other ranks
    /// wait for share_notes().
    void note(const std::string& line);
    /// Prints the lines that other ranks noted, on rank 0. Collective.
    void share_notes();
    /// Finds the transport of all-reduces, sets the bucket size, and warns of slow links.
    /// Collective.
    void look_at_links();
    /// Waits until `query` succeeds. Throws if an all-reduce fails meanwhile. Needs `all_reduce_`.
    void poll(const std::function<cudaError_t()>& query);
    /// Does the host's work before a program runs: workspaces, weight copies and requests.
    void prepare();

    Comm& comm_;
    const BackendOptions options_;
    const DeviceInfo info_;
    Nvml nvml_;
    Stream compute_, communication_, side_;
    Event forked_, joined_;
    std::shared_ptr<Workspace> workspace_, side_workspace_;
    /// Holds weight gradients in low precision until finish_gradients().
    std::shared_ptr<Workspace> gradient_workspace_;
    struct LowGradients {
        std::vector<Workspace::Part> parts;
        std::vector<kernels::Cropped> copies;  // without addresses of sources, which lie in `parts`
    } low_gradients_;                          // since the last finish_gradients()
    Cudnn cudnn_;
    Plans plans_;
    TunedDevices tuned_;                // plans of earlier runs and of all ranks
    TuningBarrier* barrier_ = nullptr;  // not null while other ranks wait for this one
    std::shared_ptr<WeightCopies> copies_ = std::make_shared<WeightCopies>();
    std::unique_ptr<GradientAllReduce> all_reduce_;  // null if there is one rank
    Buffer times_, loss_scale_;  // kernels::StepTimes; kernels::LossScale, whose scale is 1 except in f16
    Buffer muon_;                // scratch memory of Muon's matrices
    size_t muon_floats_ = 0;
    struct Mirror {
        const Requests* requests;
        std::shared_ptr<PinnedMemory> flags;  // int [3]
    };
    std::vector<Mirror> mirrors_;
    std::vector<ExactRanges> exact_ranges_;
    std::set<std::string> noted_;
    std::string unsaid_;  // lines that rank 0 has yet to print
};

}  // namespace convoy::cuda
