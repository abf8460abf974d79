// The only seam between the CPU and the CUDA backend. It is called while programs are built; running is replaying tapes.
// Everything a step needs (graph, data set, permutation, schedule, counters) lies on the device, so a step takes no arguments.
#pragma once
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/augment.h"
#include "backend/update_rule.h"
#include "base/memory_budget.h"
#include "base/tensor.h"
#include "model/graph.h"
#include "model/precision.h"

namespace convoy {

class Comm;

/// Names and versions of libraries.
using Versions = std::vector<std::pair<std::string, std::string>>;

/// Where a step runs. Communication runs beside compute until something waits for it.
enum class Lane : uint8_t { compute, communication };

struct Step {
    std::string name;  ///< operation and parameter, for timelines, profiles and error messages
    Lane lane;
    std::function<void()> run;
    bool writes = true;  ///< false: its op's output is not written, for its reader works it out
};
using Tape = std::vector<Step>;

/// Something that happened in a step, on a steady clock. On the communication lane: a sum over ranks, from its start until it was seen to
/// be complete.
struct Span {
    std::string name;
    Lane lane;
    double begin, end;  ///< seconds
};

/// Device memory, zeroed; owned by whoever holds it.
using Buffer = std::shared_ptr<void>;

/// The device's own counters; one a phase (training, evaluation).
struct Counters {
    int64_t step = 0;    ///< optimizer steps done
    int64_t epoch = 0;   ///< from 0
    int64_t offset = 0;  ///< first sample of the next global batch, in the order of this epoch
};

/// Sums over a global batch, at the head of the gradient arena so that they ride on the first bucket's all-reduce.
struct BatchStats {
    float loss_sum = 0;   ///< summed, not averaged, cross-entropy
    float correct = 0;    ///< exact: below 2^24
    float stop = 0, checkpoint = 0, hold = 0;  ///< ranks that ask for it
    float skipped = 0;  ///< the update was left out, because the loss or a gradient was not finite; written by Backend::update
};
static_assert(sizeof(BatchStats) == 6 * sizeof(float));
constexpr size_t stats_elements = 16;  ///< BatchStats padded to an alignment unit of the arena

/// What this rank asks of all ranks: the host sets it at any time, a step takes it along, and so all ranks learn of it at the
/// same step without a collective of its own.
struct Requests {
    std::atomic<int> stop{0}, checkpoint{0};
    std::atomic<int> hold{0};  ///< keep the state after this step reachable while the next one goes on: steps take long
};

/// One row of the device's metrics ring, written by the last operation of a training step.
struct StepRecord {
    int64_t step = 0;  ///< optimizer steps done, from 1
    double loss = 0, accuracy = 0, learning_rate = 0;
    double step_seconds = 0, data_seconds = 0, comm_exposed_seconds = 0;
    bool stop = false, checkpoint = false, hold = false;  ///< some rank asked for it
    bool skipped = false;                   ///< not finite: the weights are those of the step before
};

/// Totals of an evaluation on this rank.
struct EvalTotals {
    double loss_sum = 0;
    int64_t correct = 0, images = 0;
};

/// One op in one program: its operands. Valid while the tape is built: a step keeps tensors, never the Bound
/// itself. Tensors by ValueId and ParamId; a gradient without data is not wanted.
struct Bound {
    std::string name;                            ///< of the op, for step names: "stage1.block0.conv1"
    const std::vector<Tensor>& values;           ///< activations [n, h, w, c]
    const std::vector<Tensor>& value_gradients;  ///< same shapes
    const std::vector<Tensor>& params;
    const std::vector<Tensor>& param_gradients;
    const std::vector<bool>& accumulate;  ///< by ValueId: add to the gradient instead of writing it (backward)
    const std::vector<int>& readers;      ///< by ValueId: how many ops read it
    void* saved;                          ///< saved_bytes() of scratch that lives from this op's forward to its backward, a batch norm's to that of a pool in front
    Tensor labels;                        ///< i32 [n]
    BatchStats* stats;                    ///< device
    const Counters* counters;             ///< device
    int64_t global_batch;                 ///< samples of this step over all ranks; scales the loss gradient
    int64_t first;                        ///< position of this rank's first sample in the global batch
    uint64_t seed;
    bool training;
};

/// Reads a batch out of the device-resident data set.
struct Gather {
    Tensor images, labels;      ///< u8 [N, h, w, c], i32 [N]: the whole split
    const int32_t* order;       ///< device [N]: permutation of the epoch; null: the identity
    const Counters* counters;   ///< device
    Tensor x, y;                ///< outputs: [n, h, w, c] normalised, i32 [n]
    int64_t first;              ///< this rank's first position in the global batch
    std::vector<float> mean, stddev;  ///< by channel, in units of pixel / 255
    Augment augment;            ///< nothing for evaluation
    uint64_t seed;
};

/// A run of consecutive arena elements with one rule.
struct UpdateSegment {
    size_t begin, end;
    float weight_decay;
    float learning_rate = 1;    ///< times the step's
    int64_t steps = INT64_MAX;  ///< it is trained while Counters::step is below this, and then stays
    int rows = 0, columns = 0;  ///< a matrix at `begin` that Muon updates; 0: not one
};
struct Update {
    OptimizerSpec spec;
    float *weights, *gradients;  ///< device arenas, same offsets; the gradients begin with the batch sums
    float* state;                ///< [state_per_element][count]
    size_t count;
    std::vector<UpdateSegment> segments;
    const float* learning_rates;  ///< device, by step
    const Counters* counters;
    BatchStats* stats;  ///< after the all-reduce
    bool latch;         ///< after one update was left out, leave out all: the weights stay those that made a NaN
};

/// Look-ahead (Zhang et al., "Lookahead Optimizer", 2019): an average of all weights and running statistics that they are set back
/// to now and then: slow += (1 - decay) * (w - slow), w = slow.
struct LookAhead {
    float *weights, *slow;  ///< device arenas with the same offsets
    size_t count;
    std::vector<UpdateSegment> segments;  ///< of the weights, as in Update
    float *running, *slow_running;        ///< device [running_count]
    size_t running_count;
    const float* decays;       ///< device, by steps done, counting the one in progress; negative: nothing happens
    const Counters* counters;  ///< the step in progress is not counted yet
    const BatchStats* stats;   ///< nothing happens after an update that was left out; null: it happens all the same
};

/// What a device and this rank do at the moment; NaN: not known.
struct SystemSample {
    double utilisation = NAN;   ///< busy part of the GPU; on CPUs: of this rank's threads since the sample before
    double memory_bytes = NAN;  ///< in use on the GPU, by anybody; on CPUs: by this process
    double power_watts = NAN, clock_hz = NAN;  ///< of the GPU
};

/// How batch norms are done on GPUs: as was measured to be fastest; or, for tests, wherever there is a way by the convolutions around them, by
/// cuDNN's own, by kernels alone.
enum class NormBy { measured, convolutions, plans, kernels };

struct BackendOptions {
    int threads = 0;      ///< CPU threads of this rank; 0: this rank's share of the cores
    bool sync_bn = false; ///< batch statistics over all ranks
    Precision precision = Precision::f32;  ///< what with_precision() made of the graph

    bool plan_only = false;  ///< programs are built and their memory is counted, but nothing will run: blocks stay untouched

    bool bind = true;  ///< share the node's cores out among its ranks, unless their launcher did; false: leave that

    // On GPUs only.
    std::vector<int> devices{};   ///< which of the visible GPUs this node's ranks take, in order; empty: all
    bool share_device = false;    ///< several ranks may use one GPU; gradients then go through the host
    bool capture = true;          ///< replay a step as one CUDA graph; else launch its operations one by one
    NormBy norm_by = NormBy::measured;
    bool bf16_gradients = false;  ///< sum gradients over ranks in bf16
};

class Backend {
public:
    virtual ~Backend() = default;

    virtual std::string device() const = 0;  ///< one line for people: "CPU, 2 threads, oneDNN 3.2.0 (avx512_core_bf16)"
    /// Of the libraries that only this device needs; what every rank has is in library_versions().
    virtual Versions versions() const { return {}; }
    virtual int threads() const = 0;
    /// Which processors of the host this rank's threads run on.
    virtual std::string placement() const = 0;
    /// How the device is linked to others and to the host; empty if there is nothing to say.
    virtual std::string links() const = 0;
    /// What the channels of values are padded to in low precision (with_precision).
    virtual int channel_multiple() const = 0;
    /// May be called from one other thread at any time.
    virtual SystemSample sample() = 0;
    /// Marks what is done until the result is destroyed on a profiler's timeline (NVTX); null where there is none.
    virtual std::shared_ptr<void> range(const std::string& name) const = 0;
    /// Bytes. On CPUs: what this process has had in memory at most, data set included. On GPUs: what is taken on the device now.
    virtual size_t memory_taken() const = 0;

    /// Bytes that are free on a GPU now; nothing on CPUs, which count what they may still take by themselves.
    virtual std::optional<size_t> device_memory_free() const { return std::nullopt; }
    /// Counts host memory that this rank, or each, will take later besides tensors; throws Exit::out_of_memory. On CPUs only:
    /// elsewhere tensors leave the host's memory free.
    virtual void set_aside(size_t /*bytes*/, const std::string& /*what_for*/, Taker) {}

    virtual Buffer allocate(size_t bytes) = 0;  ///< before the first step only; throws Exit::out_of_memory
    /// The device's view of host memory that lives at least as long as the Buffer: on the CPU the memory itself, on a GPU a copy.
    virtual Buffer resident(void* host, size_t bytes) = 0;
    virtual void upload(void* to, const void* from, size_t bytes) = 0;
    virtual void download(void* to, const void* from, size_t bytes) = 0;

    /// What a checkpoint keeps of the backend itself, as floats on the device: the loss scale in f16, else nothing.
    virtual Tensor kept_state() = 0;

    /// Bytes an op hands from its forward to its backward besides values.
    virtual size_t saved_bytes(const Op&, const Graph&, int batch) = 0;

    // One pair an op, in a file of the op's name. Each appends to the tape.
    virtual void forward(const Conv&, const Bound&, Tape&) = 0;
    virtual void forward(const BatchNorm&, const Bound&, Tape&) = 0;
    virtual void forward(const Relu&, const Bound&, Tape&) = 0;
    virtual void forward(const Gelu&, const Bound&, Tape&) = 0;
    virtual void forward(const Scale&, const Bound&, Tape&) = 0;
    virtual void forward(const Add&, const Bound&, Tape&) = 0;
    virtual void forward(const Pool&, const Bound&, Tape&) = 0;
    virtual void forward(const PadShortcut&, const Bound&, Tape&) = 0;
    virtual void forward(const Linear&, const Bound&, Tape&) = 0;
    virtual void forward(const Dropout&, const Bound&, Tape&) = 0;
    virtual void forward(const SoftmaxXent&, const Bound&, Tape&) = 0;  ///< also writes Bound::stats
    virtual void backward(const Conv&, const Bound&, Tape&) = 0;
    virtual void backward(const BatchNorm&, const Bound&, Tape&) = 0;
    virtual void backward(const Relu&, const Bound&, Tape&) = 0;
    virtual void backward(const Gelu&, const Bound&, Tape&) = 0;
    virtual void backward(const Scale&, const Bound&, Tape&) = 0;
    virtual void backward(const Add&, const Bound&, Tape&) = 0;
    virtual void backward(const Pool&, const Bound&, Tape&) = 0;
    virtual void backward(const PadShortcut&, const Bound&, Tape&) = 0;
    virtual void backward(const Linear&, const Bound&, Tape&) = 0;
    virtual void backward(const Dropout&, const Bound&, Tape&) = 0;
    virtual void backward(const SoftmaxXent&, const Bound&, Tape&) = 0;

    virtual void gather(const Gather&, Tape&) = 0;
    virtual void zero(Tensor, Tape&) = 0;
    /// to = factor * from, or to += factor * from.
    virtual void add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&) = 0;
    /// Copies this rank's requests into the batch sums.
    virtual void request(const Requests*, BatchStats*, Tape&) = 0;
    /// Sums a slice of the gradient arena over all ranks, in place, beside the compute that follows it on the tape.
    virtual void allreduce(Tensor bucket, Tape&) = 0;
    /// Compute behind this waits for every all-reduce before it; the time spent waiting is the exposed communication.
    virtual void wait_allreduce(Tape&) = 0;
    /// One optimizer step; left out on all ranks alike if the loss or a gradient is not finite.
    virtual void update(const Update&, Tape&) = 0;
    /// Behind update.
    virtual void look_ahead(const LookAhead&, Tape&) = 0;
    /// Ends a training step: writes ring[step % ring_size] and moves the counters on.
    virtual void record(const BatchStats*, const float* learning_rates, StepRecord* ring, int64_t ring_size, Counters*,
                        int64_t global_batch, Tape&) = 0;
    /// Ends an evaluation step: adds this rank's sums to the totals and moves the offset on.
    virtual void accumulate(const BatchStats*, EvalTotals*, int64_t images, Counters*, int64_t global_batch, Tape&) = 0;

    /// Makes a tape runnable. CPU: a loop over the steps. CUDA: captured once, then replayed.
    virtual std::function<void()> finish(Tape) = 0;
    /// From now on what is run writes down when each of its steps ran; null: no longer. Nothing where steps only launch: a profiler sees
    /// those.
    virtual void trace(std::vector<Span>*) {}
    virtual void synchronize() = 0;
    /// For so long, what computes on the host's cores stops before its next step, and leaves them to another thread, which calls this.
    virtual void pause(double /*seconds*/) {}
    /// Whether a step has ended when its call returns, so that reading the ring after every step costs nothing.
    virtual bool synchronous() const = 0;
};

/// `device` is cpu, cuda or auto. Collective: backends connect to one another as they are made. Throws Exit::usage with the
/// reason, on all ranks alike, if the device cannot be had.
std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions&, Comm&);
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions&, Comm&);
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions&, Comm&);
/// Why there is no CUDA device here, or an empty string if there is one.
std::string cuda_unavailable();
/// Why the CUDA backend that belongs to this executable cannot be loaded; empty if it can, or if there is none.
std::string cuda_unloadable();
/// Versions of what the CUDA backend was built with and finds; empty without one.
Versions cuda_versions();
/// A shared library, and the file that the loader takes for it; no path: it is missing.
struct CudaLibrary {
    std::string name, path;
};
/// The CUDA backend's own shared object and what it needs besides what the executable does; empty if there is no such object.
std::vector<CudaLibrary> cuda_libraries();
/// What cuDNN has for a model's training step on a chip ("h100", "a100"), which need not be here. Throws Exit::usage.
std::string plan_table(const Graph&, int batch, Precision, const std::string& chip);

}  // namespace convoy
