// The interface between Convoy and its devices. A program calls it while it is built, and then
// replays a tape. A step takes no arguments: its data set or staged batch, permutation, schedule
// and counters already lie on the device.
#pragma once
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/feed.h"
#include "base/memory_budget.h"
#include "comm/host.h"
#include "model/graph.h"
#include "model/precision.h"
#include "ops/conv_by.h"
#include "ops/exact_sums.h"
#include "ops/records.h"
#include "ops/step.h"
#include "ops/ways.h"

namespace convoy {

class Comm;

/// Names of libraries, each with its version.
using Versions = Facts;

/// A block of device memory, zeroed when allocated; its holders share ownership.
using Buffer = std::shared_ptr<void>;

/// Requests of this rank to all ranks. The host may set them at any time. The next step sums them
/// over ranks together with the gradients. So all ranks learn of a request at the same step,
/// without another collective.
struct Requests {
    std::atomic<int> stop{0}, checkpoint{0};
    /// keep the state after this step readable during the next one, because a step takes long
    std::atomic<int> hold{0};
};

/// The operands of one op in one program. A Bound is valid only while the tape is built; a tape
/// step keeps the tensors, never the Bound itself. Vectors are indexed by ValueId or ParamId. A
/// tensor without data is either not wanted or has no memory (Ways::memory).
struct Bound {
    int op;            ///< index in Graph::ops
    std::string name;  ///< the op's name, used in the names of its tape steps: "stage1.block0.conv1"
    const Graph& graph;
    const Ways& ways;                            ///< made by Backend::decide() for this program
    const std::vector<Tensor>& values;           ///< activations [n, h, w, c], on the device
    const std::vector<Tensor>& value_gradients;  ///< same shapes
    const std::vector<Tensor>& params;           ///< f32, on the device
    const std::vector<Tensor>& param_gradients;  ///< same shapes
    const std::vector<bool>& accumulate;  ///< backward: true if the value's gradient is added to, not overwritten
    const std::vector<void*>& saved;      ///< per op, on the device, OpMemory::saved bytes; null: none
    Tensor labels;                        ///< i32 [n], on the device
    MixedLabels mixed{};                  ///< without data unless images are mixed in training
    BatchStats* stats;                    ///< on the device
    const Counters* counters;             ///< on the device
    int64_t global_batch;                 ///< samples of this step over all ranks; scales the loss gradient
    int64_t first;                        ///< position of this rank's first sample in the global batch
    uint64_t seed;
    bool training;

    void* own_saved() const { return saved[size_t(op)]; }
    /// Returns the identity of a tape step of this op. `what` precedes the op's name: "conv
    /// forward".
    StepId step(StepPhase phase, const std::string& what) const { return {op, phase, what + " " + name}; }
};

/// The current load of a device; NaN: unknown.
struct SystemSample {
    double utilisation = NAN;   ///< busy share of the GPU; on CPUs: of this rank's threads since the last sample
    double memory_bytes = NAN;  ///< in use on the GPU by all processes; on CPUs: by this process
    double power_watts = NAN, clock_hz = NAN;  ///< GPU only
    double temperature_celsius = NAN;          ///< GPU only
};

enum class NormBy : uint8_t;  // backend/cuda_queries.h

struct BackendOptions {
    int threads = 0;                       ///< CPU threads of this rank; 0: this rank's share of the cores
    bool sync_bn = false;                  ///< batch statistics are over all ranks
    Precision precision = Precision::f32;  ///< the precision that with_precision() gave the graph

    /// count the memory of programs but run none: allocated blocks stay untouched
    bool plan_only = false;
    /// results must not depend on the number of ranks and threads (--virtual-ranks)
    bool invariant = false;

    bool bind = true;  ///< bind each rank to its share of the node's cores, unless the launcher did
    /// seconds for timing alternatives of cuDNN and on CPUs; afterwards the first candidate is used
    double tune_seconds = INFINITY;
    ConvBy conv_by = ConvBy::measured;  ///< the convolution algorithm on CPUs

    // GPUs only:
    std::vector<int> devices{};   ///< which visible GPUs the node's ranks take, in order; empty: all
    bool share_device = false;    ///< several ranks may share one GPU; gradients then go through the host
    bool capture = true;          ///< replay a step as one CUDA graph; else launch its operations one by one
    NormBy norm_by{};             ///< the batch norm algorithm
    bool bf16_gradients = false;  ///< all-reduce gradients in bf16
    bool one_stream = false;      ///< never compute two operations at the same time
};

class Backend {
public:
    virtual ~Backend() = default;

    /// Returns a line for people: "AMD EPYC (AVX-512 bf16), oneDNN 3.2.0".
    virtual std::string device() const = 0;
    /// Returns a text that is equal wherever results have equal bits. It names the processor with
    /// its instruction set, or the GPU, and the version of oneDNN or cuDNN.
    virtual std::string kind() const { return device(); }
    /// Returns the versions of libraries that only this device needs. oneDNN is in every
    /// executable, so cpu_versions() returns it.
    virtual Versions versions() const { return {}; }
    /// Returns which GPU this is as "gpu", "gpu_serial" and "gpu_uuid"; empty on CPUs.
    virtual Facts identity() const { return {}; }
    virtual int threads() const = 0;
    /// Returns which processors of the host this rank's threads run on.
    virtual std::string placement() const = 0;
    /// Returns how the device is linked to others and to the host; empty on CPUs.
    virtual std::string links() const = 0;
    /// Returns the transport of all-reduces: "NCCL over P2P/CUMEM, NET/IB/GDRDMA". It is empty if
    /// unknown, with one rank, and on CPUs, where MPI chooses.
    virtual std::string transport() const { return ""; }
    /// Returns the bytes of a gradient bucket whose all-reduce takes so long that its latency does
    /// not matter; the same on all ranks.
    virtual size_t bucket_bytes() const { return size_t(4) << 20; }
    /// Returns the multiple to which channels are padded in low precision (with_precision).
    virtual int channel_multiple() const = 0;
    /// Returns the current load. One other thread may call it at any time.
    virtual SystemSample sample() = 0;
    /// Opens a range on a profiler's timeline (NVTX) that ends when the result is destroyed.
    /// Returns null without a profiler.
    virtual std::shared_ptr<void> range(const std::string& name) const = 0;
    /// Returns the bytes in use. On CPUs it is this process's peak so far, including the data set.
    /// On GPUs it is what is in use on the device now.
    virtual size_t memory_taken() const = 0;

    /// Returns the bytes that are free on a GPU now. Returns nothing on CPUs, which have a
    /// MemoryBudget.
    virtual std::optional<size_t> device_memory_free() const { return std::nullopt; }
    /// Reserves host memory for other things than tensors; `what_for` names them in messages.
    /// Throws Exit::out_of_memory. Does nothing on GPUs, whose tensors are not in host memory.
    virtual void set_aside(size_t /*bytes*/, const std::string& /*what_for*/, Taker) {}

    virtual Buffer allocate(size_t bytes) = 0;  ///< before the first step only; throws Exit::out_of_memory
    /// Like allocate(), but where all-reduces are fastest.
    virtual Buffer allocate_summed(size_t bytes) { return allocate(bytes); }
    /// Returns host memory as the device sees it: the same memory on CPUs, a copy on a GPU. The
    /// host memory must outlive the Buffer.
    virtual Buffer resident(void* host, size_t bytes) = 0;
    /// Returns host memory that the device reads in place while steps run, so it takes no device
    /// memory. The same as resident() where the device's memory is the host's. The host memory must
    /// outlive the Buffer.
    virtual Buffer mapped(void* host, size_t bytes) { return resident(host, bytes); }
    /// Allocates memory that steps write and the host reads at the same address. The host reads it
    /// after a mark(), while later steps run.
    virtual Buffer allocate_shared(size_t bytes) { return allocate(bytes); }
    virtual void upload(void* to, const void* from, size_t bytes) = 0;
    virtual void download(void* to, const void* from, size_t bytes) = 0;

    /// Returns the backend's own part of a checkpoint as floats on the device. That is the loss
    /// scale in f16; otherwise it is empty.
    virtual Tensor kept_state() = 0;

    /// Collective, called before decide() of a training program. Ranks with the same kind of device
    /// and batch size decide alike from then on. One rank's measurements count for all of them.
    /// Does nothing where nothing is measured.
    virtual void agree(const Outline&) {}
    /// Decides how each op of a program runs, and so what memory it takes. May time alternatives on
    /// the device. The program's Bound must refer to the returned Ways.
    virtual std::shared_ptr<const Ways> decide(const Outline&) = 0;
    /// Returns what was chosen by measuring, on the devices of all ranks that agreed; empty if
    /// nothing was.
    virtual std::string choices() const { return ""; }
    /// Restores what choices() returned, so that equal devices choose the same again. Call it
    /// before agree() and decide().
    virtual void take_choices(const std::string&) {}

    /// Appends an op's steps to the tape; the loss also writes Bound::stats. A backend has one
    /// function per op, in the file with the op's name. All functions with a Tape only append to
    /// it: the work is done when the tape runs.
    virtual void forward(const Op&, const Bound&, Tape&) = 0;
    virtual void backward(const Op&, const Bound&, Tape&) = 0;
    /// Appends what is left to write the param_gradients of all ops appended by backward() so far.
    /// Call it before a step that reads them.
    virtual void finish_gradients(Tape&) {}

    /// Creates a feed of batches of up to `rows` images, with room for `image_bytes` at first.
    /// Feed::claim() explains `ahead`.
    virtual std::unique_ptr<Feed> feed(int rows, size_t image_bytes, int ahead) = 0;
    virtual void gather(const Gather&, Tape&) = 0;
    virtual void zero(Tensor, Tape&) = 0;
    /// Appends to = factor * from, or to += factor * from.
    virtual void add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&) = 0;
    /// Copies this rank's requests into the batch sums at every run of the tape; null: there are
    /// none. If `own` is not null, it receives the batch sums of this rank, before they are
    /// all-reduced.
    virtual void request(const Requests*, BatchStats*, BatchStats* own, Tape&) = 0;
    /// Starts an all-reduce (sum) of a slice of the gradient arena, in place. It overlaps with the
    /// compute that follows on the tape. The first `counts` elements are counts, which are summed
    /// exactly in any precision.
    virtual void allreduce(Tensor bucket, size_t counts, Tape&) = 0;
    /// Waits for every all-reduce started so far. The time of this wait is the exposed
    /// communication.
    virtual void wait_allreduce(Tape&) = 0;

    // Logical ranks: one rank may compute several of them.
    /// Returns the number of lanes: logical ranks computed side by side, each lane in its own
    /// memory.
    virtual int lanes() const { return 1; }
    /// Returns the backend that appends to tapes of a lane, counted from 0. This backend owns it.
    virtual Backend& lane(int) { return *this; }
    /// Runs tapes[i] on lane i % lanes(). The tapes of a lane run one after the other.
    virtual void side_by_side(const std::vector<Tape>& tapes, Tape& to) {
        for (const Tape& tape : tapes) to.append(tape);
    }
    /// Adds gradients [begin, end) of one logical rank to the sums, and notes their exponents.
    /// `gradients` points to offset 0 of an arena.
    virtual void deposit(const ExactSums&, const float* gradients, size_t begin, size_t end, Tape&) = 0;
    /// Reports that a lane has deposited all of [begin, end); appended after the last deposit()
    /// into that range. Once all lanes have reported, the all-reduce of these sums starts. All
    /// lanes must have their buckets in the same order.
    virtual void allreduce(const ExactSums&, size_t begin, size_t end, Tape&) = 0;
    /// Finishes a step; called after side_by_side(). Waits for all all-reduces started so far, and
    /// for the largest exponents of all ranks. Then writes the whole gradient arena: each sum,
    /// rounded once. A tensor in which some gradient was not finite gets NaN. Finally sets tops,
    /// seen, redo and sums for the next step. `redo` asks to repeat this step: some tensor's
    /// gradients were all finite, but one had an exponent above the tensor's.
    virtual void withdraw(const ExactSums&, float* gradients, Tape&) = 0;

    /// Performs one optimizer step. All ranks skip it if the loss or a gradient is not finite.
    virtual void update(const Update&, Tape&) = 0;
    /// Averages the weights with the slow weights; called after update().
    virtual void look_ahead(const LookAhead&, Tape&) = 0;
    virtual void record(const Record&, Tape&) = 0;
    /// Ends an evaluation step: adds this rank's sums to the totals and advances the offset.
    virtual void accumulate(const BatchStats*, EvalTotals*, int64_t images, Counters*, int64_t global_batch, Tape&) = 0;

    /// Makes a tape runnable. CPU: a loop over its steps. CUDA: captured once, then replayed.
    virtual std::function<void()> finish(Tape) = 0;
    /// Makes each run append the times of its tape steps to the vector; null: no longer. Does
    /// nothing on GPUs, whose steps only launch: use a profiler there.
    virtual void trace(std::vector<Span>*) {}
    /// Runs the tape steps one after another, and returns the seconds that each took on the device.
    virtual std::vector<double> time_steps(const Tape&) = 0;
    virtual void synchronize() = 0;
    /// Marks the end of everything launched so far. The returned function blocks until the device
    /// has reached the mark, but does not wait for later launches.
    virtual std::function<void()> mark() {
        return [] {};
    }
    /// Keeps the host's cores free for some seconds: a running tape waits before its next step.
    /// Called from another thread.
    virtual void pause(double /*seconds*/) {}
    /// Returns true if a step has ended when its call returns. Then reading the ring after each
    /// costs nothing.
    virtual bool synchronous() const = 0;
};

/// Creates the backend for `device`: cpu, cuda or auto. Collective, because backends connect to one
/// another. Throws Exit::usage with the reason, on all ranks alike, if the device is not available.
std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions&, Comm&);
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions&, Comm&);
/// Returns the version of the library that the CPU backend was linked with: onednn.
Versions cpu_versions();

}  // namespace convoy
