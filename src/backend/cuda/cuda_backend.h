// The CUDA backend of one rank on one GPU: cuDNN plans and the kernels of kernels/ on a compute
// stream, NCCL on another. A tape's steps only launch: the first run is eager, the second is
// captured as one CUDA graph.
#pragma once
#include <map>
#include <optional>
#include <set>

#include "backend/backend.h"
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
    /// On the current device. The caller agrees with other ranks on failures.
    CudaBackend(const BackendOptions&, const DeviceInfo&, Comm&, const std::string& placement = "");
    ~CudaBackend() override;
    /// Connects to the other ranks; collective.
    void connect();

    std::string device() const override;
    Versions versions() const override { return cuda::versions(); }
    Facts identity() const override;
    int threads() const override { return 1; }
    std::string placement() const override { return placement_; }
    int channel_multiple() const override { return tensor_core_multiple; }
    std::string links() const override { return nvml_.links(); }
    SystemSample sample() override { return nvml_.sample(); }
    std::shared_ptr<void> range(const std::string& name) const override;
    size_t memory_taken() const override;
    std::optional<size_t> device_memory_free() const override;
    Buffer allocate(size_t bytes) override;
    Buffer resident(void* host, size_t bytes) override;
    void upload(void* to, const void* from, size_t bytes) override;
    void download(void* to, const void* from, size_t bytes) override;
    Tensor kept_state() override;
    size_t saved_bytes(const Op&, const Graph&, int batch) override;

    size_t last_reader(const Graph&, size_t op) const override;
    void forward(const Op&, const Bound&, Tape&) override;
    void backward(const Op&, const Bound&, Tape&) override;
    bool writes_value(ValueId v) const override { return !norms_in_convs_.contains(v); }
    bool writes_gradient(ValueId v) const override { return !unwritten_gradients_.contains(v); }
    void gather(const Gather&, Tape&) override;
    void zero(Tensor, Tape&) override;
    void add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&) override;
    void request(const Requests*, BatchStats*, BatchStats* own, Tape&) override;
    void allreduce(Tensor bucket, Tape&) override;
    void wait_allreduce(Tape&) override;
    void update(const Update&, Tape&) override;
    void look_ahead(const LookAhead&, Tape&) override;
    void record(const Record&, Tape&) override;
    void accumulate(const BatchStats*, EvalTotals*, int64_t, Counters*, int64_t, Tape&) override;
    std::function<void()> finish(Tape) override;
    void synchronize() override;
    bool synchronous() const override { return false; }

private:
    // Each in the file of its op.
#define CONVOY_DECLARE(O)                        \
    void forward(const O&, const Bound&, Tape&); \
    void backward(const O&, const Bound&, Tape&);
    CONVOY_EACH_OP(CONVOY_DECLARE)
#undef CONVOY_DECLARE
    /// An operand: at a fixed address, or a part of the workspace, whose address is known when the
    /// step runs.
    struct Operand {
        Slot slot;
        void* data = nullptr;
        std::optional<Workspace::Part> part{};
    };
    /// Appends work on the compute stream; its launches may not wait for anything.
    void step(Tape&, StepId, std::function<void(cudaStream_t)>);
    /// Appends a plan. In the workspace, its own part follows those of its operands.
    void step(Tape&, StepId, const Plan&, const std::vector<Operand>&);
    /// A further step of the same work.
    static StepId followed(StepId, const std::string& what);
    /// One step in place of this one and that of op `op`, which comes before it: "pool and batch
    /// norm …".
    static StepId fused_with(StepId, const std::string& with, int op);
    /// add_scaled() as a step of that identity.
    void scale(StepId, const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&);
    /// The plan of a spec that has no fallback; throws Exit::usage if cuDNN has no engine for it.
    const Plan& plan(const PlanSpec&);
    /// A weight as the plans take it: the master itself where it is that already.
    void* weight(const Tensor& master, const CopyShape&);
    // What convolutions and linear layers share; conv.cpp. dy is slot dy of the plan.
    /// Writes the gradient of a weight to its place in the f32 arena.
    void weight_gradient(Tape&, const StepId&, const PlanSpec&, const Operand& dy, std::vector<Operand> x,
                         const Tensor& gradient, const CopyShape&);
    /// Writes dx, or adds to it.
    void data_gradient(Tape&, const StepId&, PlanSpec, const Operand& dy, void* weight, const Tensor& dx,
                       bool accumulate);
    void add_bias(Tape&, const StepId&, const Tensor& from, std::optional<Workspace::Part> from_part,
                  const Tensor& bias, const Tensor& to);
    void bias_gradient(Tape&, const StepId&, const Tensor& dy, const Tensor& gradient);

    /// The faster of cuDNN's batch norm and our kernels, and its time. Null: our kernels.
    struct NormWay {
        const Plan* plan;
        float microseconds;
    };
    NormWay norm_forward(const BatchNorm&, const Bound&, float* scratch);  ///< scratch [2][stored]
    NormWay norm_backward(const BatchNorm&, const Bound&, const kernels::BatchNormGradients&);
    NormWay norm_way(const Plan* found, float extra, const std::string& key, const std::function<void()>& kernels);
    /// cuDNN's plan; null if it has none or the options exclude it.
    const Plan* norm_plan(const BatchNorm&, const Bound&, PlanSpec::Kind);
    /// What tells the kernels' work for one batch norm from that for another.
    static std::string norm_key(PlanSpec::Kind, const BatchNorm&, const Bound&);
    /// Append cuDNN's batch norm, or return false and append nothing if another way is faster.
    bool forward_by_plan(const BatchNorm&, const Bound&, Tape&);
    bool backward_by_plan(const BatchNorm&, const Bound&, const kernels::BatchNormGradients&, Tape&);
    static kernels::BatchNormArgs args_of(const BatchNorm&, const Bound&);

    // Batch norms fused into adjacent convolutions; fusion.cpp. By value, of the tape that is being
    // built.
    /// The step of a convolution, forward or data gradient, that a fused plan may replace.
    struct ConvStep {
        size_t at = 0;  ///< on the tape
        StepId id{};
        Conv op{};
        PlanSpec spec{};
        std::vector<Operand> operands{};  ///< the output is the last
    };
    std::map<ValueId, ConvStep> conv_steps_;      // by y: those without bias
    std::map<ValueId, ConvStep> data_gradients_;  // by x: those that nothing was added to
    /// A batch norm whose producer writes its sums, and whose only consumer is a convolution.
    struct SummedNorm {
        size_t at = 0;
        kernels::BatchNormArgs args{};
        Buffer sums{};        ///< [2][stored]
        float normalise = 0;  ///< microseconds
        float* sum() const { return static_cast<float*>(sums.get()); }
        float* squares() const { return sum() + args.x.shape.c; }
    };
    std::map<ValueId, SummedNorm> summed_norms_;  // by y
    /// A batch norm whose output stays unwritten: its consumer computes relu(scale * x + bias).
    struct NormInConv {
        void* x = nullptr;
        Buffer scale{}, bias{};  ///< like a pixel of x
        std::vector<Operand> operands() const {
            return {{Slot::x, x}, {Slot::scale, scale.get()}, {Slot::bias, bias.get()}};
        }
    };
    std::map<ValueId, NormInConv> norms_in_convs_;  // by y
    bool prefer(float fused_microseconds, float plain_microseconds) const;
    /// Null if cuDNN has none, or fusion is off.
    const Plan* fused_plan(const PlanSpec&, const char* instead);
    static const ConvStep* conv_step(const std::map<ValueId, ConvStep>&, ValueId, const Tensor& output, const Tape&);
    /// Replaces a step by a fused plan: with more operands, without the one at `instead_of`.
    void replace(Tape&, const ConvStep&, const Plan&, std::vector<Operand> more, const void* instead_of = nullptr);
    /// Each fuses steps that are on the tape already, or returns false and changes nothing.
    bool forward_by_conv_sums(const BatchNorm&, const Bound&, Tape&);
    bool fuse_norm_into_input(const ConvStep&, const Plan& plain, const std::vector<Operand>& sums, const Bound&,
                              Tape&);
    bool backward_by_conv_sums(const BatchNorm&, const Bound&, const kernels::BatchNormGradients&, Tape&);
    /// If the last step is the max-pool feeding this norm, one kernel does both. It still writes
    /// the pooled values, which others may read.
    struct PoolStep {
        size_t steps = 0;             ///< of the tape, this one being the last
        int op = none;                ///< index in Graph::ops
        kernels::BatchNormArgs of{};  ///< x (the pool's y), image, pool, index
    };
    /// If the last step is a batch norm's gradient, that of the max-pool feeding it may join it.
    struct NormStep {
        size_t steps = 0;
        kernels::BatchNormArgs args{};
        kernels::BatchNormGradients to{};
        Workspace::Part part{};
    };
    std::set<ValueId> unwritten_gradients_;  // the max-pool's step recomputes them
    PoolStep last_pool_;
    NormStep last_norm_;
    /// Says once, on rank 0, what runs instead of what cuDNN does not have.
    void note(const std::string&);
    /// What a program needs from the host before it runs.
    void prepare();

    Comm& comm_;
    const BackendOptions options_;
    const DeviceInfo info_;
    Nvml nvml_;
    const std::string placement_;
    Stream compute_, communication_;
    std::shared_ptr<Workspace> workspace_;
    Cudnn cudnn_;
    Plans plans_;
    WeightCopies copies_;
    std::unique_ptr<GradientSums> sums_;      // null on one rank
    Buffer times_, loss_scale_;               // kernels::StepTimes; kernels::LossScale, of scale 1 outside f16
    std::vector<Buffer> next_statistics_;     // [2][channels] of each batch norm by a plan
    std::vector<kernels::Span> new_running_;  // of the program that is being built, until its update takes them
    Buffer muon_;                             // what Muon's matrices take
    size_t muon_floats_ = 0;
    struct Mirror {
        const Requests* requests;
        std::shared_ptr<PinnedMemory> flags;  // int [2]
    };
    std::vector<Mirror> mirrors_;
    std::set<std::string> noted_;
};

}  // namespace convoy::cuda
