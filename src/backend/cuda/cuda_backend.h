// The CUDA backend of one rank on one GPU. It has three streams: for cuDNN plans and the kernels of
// kernels/, for NCCL, and for small weight gradients. The steps of a tape only launch work: the
// first run is eager, the second is captured as one CUDA graph.
#pragma once
#include <optional>
#include <set>

#include "backend/backend.h"
#include "backend/cuda/agreement.h"
#include "backend/cuda/device.h"
#include "backend/cuda/gradient_sums.h"
#include "backend/cuda/handles.h"
#include "backend/cuda/nvml.h"
#include "backend/cuda/plans.h"
#include "backend/cuda/weight_copies.h"
#include "backend/cuda/workspace.h"
#include "backend/cuda_entry.h"
#include "kernels/kernels.h"

namespace convoy::cuda {

class CudaBackend final : public Backend {
public:
    /// Uses the current device. `threads`: number of threads that build plans while the calling one
    /// times them. Errors are of this rank alone: construct it within Comm::together().
    CudaBackend(const BackendOptions&, const DeviceInfo&, Comm&, int threads, const std::string& placement);
    ~CudaBackend() override;
    /// Connects to the other ranks. Collective.
    void connect();

    SystemSample sample() override { return nvml_.sample(); }
    std::shared_ptr<void> range(const std::string& name) const override;
    size_t memory_taken() const override;
    std::optional<size_t> device_memory_free() const override;
    Buffer allocate(size_t bytes) override;
    Buffer allocate_summed(size_t bytes) override;
    Buffer resident(void* host, size_t bytes) override;
    Buffer mapped(void* host, size_t bytes) override;
    Buffer allocate_shared(size_t bytes) override;
    void upload(void* to, const void* from, size_t bytes) override;
    void download(void* to, const void* from, size_t bytes) override;
    Tensor kept_state() override;
    void agree(const Outline&) override;
    std::shared_ptr<const Ways> decide(const Outline&) override;
    std::string choices() const override;
    void take_choices(const std::string&) override;

    void forward(const Op&, const Bound&, Tape&) override;
    void backward(const Op&, const Bound&, Tape&) override;
    void finish_gradients(Tape&) override;
    std::unique_ptr<Feed> feed(int rows, size_t image_bytes, int ahead) override;
    void gather(const Gather&, Tape&) override;
    void zero(Tensor, Tape&) override;
    void add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&) override;
    void request(const Requests*, BatchStats*, BatchStats* own, Tape&) override;
    void allreduce(Tensor bucket, size_t counts, Tape&) override;
    void wait_allreduce(Tape&) override;
    void deposit(const ExactSums&, const float* gradients, size_t begin, size_t end, Tape&) override;
    void allreduce(const ExactSums&, size_t begin, size_t end, Tape&) override;
    void withdraw(const ExactSums&, float* gradients, Tape&) override;
    void update(const Update&, Tape&) override;
    void look_ahead(const LookAhead&, Tape&) override;
    void record(const Record&, Tape&) override;
    void accumulate(const BatchStats*, EvalTotals*, int64_t, Counters*, int64_t, Tape&) override;
    std::function<void()> finish(Tape) override;
    std::vector<double> time_steps(const Tape&) override;
    void synchronize() override;
    std::function<void()> mark() override;

private:
    // The functions of an op are in the file of that op.
#define CONVOY_DECLARE(O)                        \
    void forward(const O&, const Bound&, Tape&); \
    void backward(const O&, const Bound&, Tape&);
    CONVOY_EACH_OP(CONVOY_DECLARE)
#undef CONVOY_DECLARE
    /// Branches compute at the same time. Each has a stream and a workspace. `side` has work only
    /// between fork() and join().
    enum class Branch { main, side };
    /// An operand of a plan: at a fixed address, or a part of a workspace, whose address is looked
    /// up when the step runs.
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
    /// Appends a step that launches work on a branch's stream. The function must not block.
    void step(Tape&, StepId, std::function<void(cudaStream_t)>, Branch = Branch::main);
    /// Appends a step that runs a plan. The plan's workspace is placed behind those operands that
    /// lie in the branch's workspace.
    void step(Tape&, StepId, const Plan&, const std::vector<Operand>&, Branch = Branch::main);
    /// Makes the side branch wait for all work of the main branch so far.
    void fork(Tape&, const StepId&);
    /// Makes the main branch wait for all work of the side branch so far.
    void join(Tape&, const StepId&);
    /// Returns the id of a further step of the same work.
    static StepId followed(StepId, const std::string& what);
    /// Returns the id of one step that does the work of this one and of the earlier op `op`: "pool
    /// and batch norm …".
    static StepId fused_with(StepId, const std::string& with, int op);
    /// Appends add_scaled() as a step with this id.
    void scale(StepId, const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&);
    Plans::Options plan_options(int threads);
    /// Runs decide() on the ranks with an outline; the other ranks wait for them. Collective.
    void together_deciding(const Outline*);
    /// Returns a plan that decide() chose; throws Exit::usage if cuDNN has no engine for it.
    const Plan& plan(const PlanSpec&);
    static const Way& way_of(const Bound& b) { return static_cast<const GpuWays&>(b.ways).ways[size_t(b.op)]; }
    /// Returns a weight in the type and padding that plans need: a copy, or the master itself.
    void* weight(const Tensor& master, const CopyShape&);
    // Shared by convolutions and linear layers; defined in conv.cpp. `dy` goes into slot dy.
    /// Returns the inputs of a convolution's plans: x or, if the plans also normalise, the input
    /// and the vectors of that batch norm.
    std::vector<Operand> conv_input(const Conv&, const Bound&);
    /// Returns further operands of a data gradient that also sums for the gradient of the batch
    /// norm that writes x; empty if it does not.
    std::vector<Operand> norm_sums(const Bound&);
    /// Appends a weight gradient. It is written to its place in the f32 arena: by its plan in f32,
    /// else by finish_gradients(). If the way says so, it runs on the side branch, and the caller
    /// joins it after the data gradient.
    void weight_gradient(Tape&, const StepId&, const ProductWay&, const Operand& dy, std::vector<Operand> x,
                         const Tensor& gradient, const CopyShape&);
    /// Appends a data gradient, which writes dx or adds to it. `more`: further operands of the
    /// plan.
    void data_gradient(Tape&, const StepId&, const PlanSpec&, const Operand& dy, void* weight, const Tensor& dx,
                       bool accumulate, const std::vector<Operand>& more = {});
    void add_bias(Tape&, const StepId&, const Tensor& from, std::optional<Workspace::Part> from_part,
                  const Tensor& bias, const Tensor& to);
    void bias_gradient(Tape&, const StepId&, const Tensor& dy, const Tensor& gradient);

    Buffer cleared(Buffer, size_t bytes);
    struct ExactPieces {
        std::vector<ExactPiece> host;
        Buffer device;
        const ExactPiece* table() const { return static_cast<const ExactPiece*>(device.get()); }
        int count() const { return int(host.size()); }
    };
    ExactPieces exact_pieces(const ExactSums&, size_t begin, size_t end);
    // batchnorm.cpp
    void forward_by_plan(const BatchNorm&, const Bound&, Tape&);
    void forward_over_ranks(const kernels::BatchNormArgs&, StepId, Tape&);
    void backward_by_plan(const BatchNorm&, const Bound&, const kernels::BatchNormGradients&, Tape&);
    void backward_over_ranks(const kernels::BatchNormArgs&, const kernels::BatchNormGradients&, const StepId&, Tape&);
    /// Copies the running statistics that plans wrote to their final place. It comes after the
    /// forward of all ops.
    void commit_running(const Bound&, Tape&);
    /// Prints a line once, about what runs instead of plans that cuDNN lacks. Only rank 0 prints;
    /// lines of other ranks wait for share_notes().
    void note(const std::string& line);
    /// Prints the lines that other ranks noted, on rank 0. Collective.
    void share_notes();
    /// Finds the transport of all-reduces, sets the bucket size, and warns of slow links.
    /// Collective.
    void look_at_links();
    /// Waits until `query` succeeds. Throws if an all-reduce fails meanwhile. Needs `sums_`.
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
    DeviceChoices agreed_;          // choices of earlier runs and of all ranks
    Meetings* meetings_ = nullptr;  // not null while other ranks wait for this one
    std::shared_ptr<WeightCopies> copies_ = std::make_shared<WeightCopies>();
    std::unique_ptr<GradientSums> sums_;  // null if there is one rank
    Buffer times_, loss_scale_;           // kernels::StepTimes; kernels::LossScale, whose scale is 1 except in f16
    Buffer muon_;                         // scratch memory of Muon's matrices
    size_t muon_floats_ = 0;
    struct Mirror {
        const Requests* requests;
        std::shared_ptr<PinnedMemory> flags;  // int [3]
    };
    std::vector<Mirror> mirrors_;
    std::vector<ExactPieces> exact_pieces_;
    std::set<std::string> noted_;
    std::string unsaid_;  // lines that rank 0 has yet to print
};

}  // namespace convoy::cuda
