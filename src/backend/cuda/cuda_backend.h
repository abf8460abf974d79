// The CUDA backend of one rank on one GPU: cuDNN plans and the kernels of kernels/ on a compute
// stream, NCCL on another, small weight gradients on a third. A tape's steps only launch: the first
// run is eager, the second is captured as one CUDA graph.
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
    /// On the current device. The caller agrees with other ranks on failures. `threads`: that build
    /// plans while this one times them.
    CudaBackend(const BackendOptions&, const DeviceInfo&, Comm&, int threads, const std::string& placement);
    ~CudaBackend() override;
    /// Connects to the other ranks; collective.
    void connect();

    std::string device() const override;
    std::string kind() const override;  ///< also what plans are chosen for
    Versions versions() const override { return cuda::versions(); }
    Facts identity() const override;
    int threads() const override { return 1; }
    std::string placement() const override { return placement_; }
    std::string transport() const override { return transport_; }
    size_t bucket_bytes() const override { return bucket_bytes_; }
    int channel_multiple() const override { return tensor_core_multiple; }
    std::string links() const override { return nvml_.links(); }
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
    bool synchronous() const override { return false; }

private:
    // Each in the file of its op.
#define CONVOY_DECLARE(O)                        \
    void forward(const O&, const Bound&, Tape&); \
    void backward(const O&, const Bound&, Tape&);
    CONVOY_EACH_OP(CONVOY_DECLARE)
#undef CONVOY_DECLARE
    /// What computes at the same time, each on a stream and in a workspace of its own: `side` has
    /// work only between fork() and join().
    enum class Branch { main, side };
    /// An operand: at a fixed address, or a part of a branch's workspace, whose address is known
    /// when the step runs.
    struct Operand {
        Slot slot;
        void* data = nullptr;
        std::optional<Workspace::Part> part{};
        Branch of = Branch::main;  ///< whose workspace `part` is of
    };
    cudaStream_t stream_of(Branch b) const { return b == Branch::main ? compute_.get() : side_.get(); }
    const std::shared_ptr<Workspace>& workspace_of(Branch b) const {
        return b == Branch::main ? workspace_ : side_workspace_;
    }
    /// Appends work on a branch's stream; its launches may not wait for anything.
    void step(Tape&, StepId, std::function<void(cudaStream_t)>, Branch = Branch::main);
    /// Appends a plan. In the branch's workspace, its own part follows those of its operands.
    void step(Tape&, StepId, const Plan&, const std::vector<Operand>&, Branch = Branch::main);
    /// The side branch waits for all that the main one has so far, and the other way round.
    void fork(Tape&, const StepId&);
    void join(Tape&, const StepId&);
    /// A further step of the same work.
    static StepId followed(StepId, const std::string& what);
    /// One step in place of this one and that of op `op`, which comes before it: "pool and batch
    /// norm …".
    static StepId fused_with(StepId, const std::string& with, int op);
    /// add_scaled() as a step of that identity.
    void scale(StepId, const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&);
    Plans::Options plan_options(int threads);
    /// Collective: ranks with an outline decide, and build what they decided for; the others wait.
    void together_deciding(const Outline*);
    /// A plan that decide() chose; throws Exit::usage if cuDNN has no engine for it.
    const Plan& plan(const PlanSpec&);
    static const Way& way_of(const Bound& b) { return static_cast<const GpuWays&>(b.ways).ways[size_t(b.op)]; }
    /// A weight as the plans take it: the master itself where it is that already.
    void* weight(const Tensor& master, const CopyShape&);
    // What convolutions and linear layers share; conv.cpp. dy is slot dy of the plan.
    /// What a convolution's plans read: x, or that of the batch norm which they do, and its
    /// vectors.
    std::vector<Operand> conv_input(const Conv&, const Bound&);
    /// What its data gradient reads and writes for the gradient of the batch norm that writes x.
    std::vector<Operand> norm_sums(const Bound&);
    /// Writes the gradient of a weight to its place in the f32 arena. On the side branch if the way
    /// says so: the caller joins it after the data gradient.
    void weight_gradient(Tape&, const StepId&, const ProductWay&, const Operand& dy, std::vector<Operand> x,
                         const Tensor& gradient, const CopyShape&);
    /// Writes dx, or adds to it. `more`: further operands of the plan.
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
    /// After the forward of all ops: moves the running statistics that plans wrote to their place.
    void commit_running(const Bound&, Tape&);
    /// Says once what runs instead of what cuDNN does not have: rank 0 does, for others when they
    /// next agree.
    void note(const std::string& line);
    /// Collective: rank 0 says what other ranks noted.
    void share_notes();
    /// Collective: what the sums over ranks go over, and what follows from it.
    void look_at_links();
    /// Waits until `query` no longer says that it is not ready, where there are sums over ranks.
    void poll(const std::function<cudaError_t()>& query);
    /// What a program needs from the host before it runs.
    void prepare();

    Comm& comm_;
    const BackendOptions options_;
    const DeviceInfo info_;
    Nvml nvml_;
    const std::string placement_;
    Stream compute_, communication_, side_;
    Event forked_, joined_;
    std::shared_ptr<Workspace> workspace_, side_workspace_;
    Cudnn cudnn_;
    Plans plans_;
    DeviceChoices agreed_;          // of earlier runs and of all ranks
    Meetings* meetings_ = nullptr;  // while others wait for this rank
    WeightCopies copies_;
    std::unique_ptr<GradientSums> sums_;  // null on one rank
    std::string transport_;               // of all ranks
    size_t bucket_bytes_ = size_t(4) << 20;
    Buffer times_, loss_scale_;  // kernels::StepTimes; kernels::LossScale, of scale 1 outside f16
    Buffer muon_;                // what Muon's matrices take
    size_t muon_floats_ = 0;
    struct Mirror {
        const Requests* requests;
        std::shared_ptr<PinnedMemory> flags;  // int [3]
    };
    std::vector<Mirror> mirrors_;
    std::vector<ExactPieces> exact_pieces_;
    std::set<std::string> noted_;
    std::string unsaid_;  // lines that rank 0 is to say
};

}  // namespace convoy::cuda
