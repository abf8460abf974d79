// The only seam between the rest of Convoy and its backends. Programs call it while they are built;
// to run is to replay a tape. Everything a step needs (data set or a staged batch of it,
// permutation, schedule, counters) lies on the device, so a step takes no arguments.
#pragma once
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/conv_by.h"
#include "backend/exact_sums.h"
#include "backend/feed.h"
#include "backend/records.h"
#include "backend/step.h"
#include "backend/ways.h"
#include "base/memory_budget.h"
#include "comm/host.h"
#include "model/graph.h"
#include "model/precision.h"

namespace convoy {

class Comm;

/// Names and versions of libraries.
using Versions = Facts;

/// Device memory, zeroed; its holders own it.
using Buffer = std::shared_ptr<void>;

/// What this rank asks of all ranks. The host sets it at any time. The next step sums it over ranks
/// with the gradients, so all ranks learn of it at the same step without another collective.
struct Requests {
    std::atomic<int> stop{0}, checkpoint{0};
    /// keep the state after this step readable during the next one, because steps take long
    std::atomic<int> hold{0};
};

/// One op in one program: its operands. Valid while the tape is built: a step keeps tensors, never
/// the Bound itself. Vectors are by ValueId or ParamId. What has no data is not wanted, or is in
/// no memory (Ways::memory).
struct Bound {
    int op;            ///< index in Graph::ops
    std::string name;  ///< of the op, for step names: "stage1.block0.conv1"
    const Graph& graph;
    const Ways& ways;                            ///< as Backend::decide() made them for this program
    const std::vector<Tensor>& values;           ///< activations [n, h, w, c], device
    const std::vector<Tensor>& value_gradients;  ///< same shapes
    const std::vector<Tensor>& params;           ///< f32, device
    const std::vector<Tensor>& param_gradients;  ///< same shapes
    const std::vector<bool>& accumulate;         ///< backward: add to the value's gradient instead of writing it
    const std::vector<void*>& saved;             ///< by op, device, OpMemory::saved bytes; null: none
    Tensor labels;                               ///< i32 [n], device
    MixedLabels mixed{};                         ///< of training on mixed images
    BatchStats* stats;                           ///< device
    const Counters* counters;                    ///< device
    int64_t global_batch;                        ///< samples of this step over all ranks; scales the loss gradient
    int64_t first;                               ///< position of this rank's first sample in the global batch
    uint64_t seed;
    bool training;

    void* own_saved() const { return saved[size_t(op)]; }
    /// Of a step of this op; `what` comes before the op's name: "conv forward".
    StepId step(StepPhase phase, const std::string& what) const { return {op, phase, what + " " + name}; }
};

/// The load of a device at the moment; NaN: not known.
struct SystemSample {
    double utilisation = NAN;   ///< busy share of the GPU; on CPUs: of this rank's threads since the last sample
    double memory_bytes = NAN;  ///< in use on the GPU, by all processes; on CPUs: by this one
    double power_watts = NAN, clock_hz = NAN;  ///< of the GPU
    double temperature_celsius = NAN;          ///< of the GPU
};

enum class NormBy : uint8_t;  // backend/cuda_queries.h

struct BackendOptions {
    int threads = 0;                       ///< CPU threads of this rank; 0: this rank's share of the cores
    bool sync_bn = false;                  ///< batch statistics over all ranks
    Precision precision = Precision::f32;  ///< what with_precision() made of the graph

    /// count the memory of programs but run none: blocks stay untouched
    bool plan_only = false;
    /// what is computed must not depend on the number of ranks and threads (--virtual-ranks)
    bool invariant = false;

    bool bind = true;  ///< bind each rank to its share of the node's cores, unless the launcher did
    /// for timing what cuDNN and CPUs offer; once they are over, the first choice serves
    double tune_seconds = INFINITY;
    ConvBy conv_by = ConvBy::measured;  ///< how convolutions run on CPUs

    // On GPUs only.
    std::vector<int> devices{};   ///< which of the visible GPUs this node's ranks take, in order; empty: all
    bool share_device = false;    ///< several ranks may use one GPU; gradients then go through the host
    bool capture = true;          ///< replay a step as one CUDA graph; else launch its operations one by one
    NormBy norm_by{};             ///< how batch norm runs
    bool bf16_gradients = false;  ///< sum gradients over ranks in bf16
    bool one_stream = false;      ///< no two operations compute at the same time
};

class Backend {
public:
    virtual ~Backend() = default;

    /// One line for people: "AMD EPYC (AVX-512 bf16), oneDNN 3.2.0".
    virtual std::string device() const = 0;
    /// What must be equal for equal bits: processor and its instructions, or GPU, and the version
    /// of oneDNN or cuDNN.
    virtual std::string kind() const { return device(); }
    /// Of the libraries that only this device needs. oneDNN is in every executable: cpu_versions().
    virtual Versions versions() const { return {}; }
    /// Which GPU this is: "gpu", "gpu_serial" and "gpu_uuid"; nothing on CPUs.
    virtual Facts identity() const { return {}; }
    virtual int threads() const = 0;
    /// Which processors of the host this rank's threads run on.
    virtual std::string placement() const = 0;
    /// How the device is linked to others and to the host; empty on CPUs.
    virtual std::string links() const = 0;
    /// How sums over ranks travel: "NCCL over P2P/CUMEM, NET/IB/GDRDMA"; empty if that is not
    /// known, as of one rank and on CPUs, where MPI chooses.
    virtual std::string transport() const { return ""; }
    /// Bytes of a gradient bucket whose sum is long enough for its latency not to matter; the same
    /// on all ranks.
    virtual size_t bucket_bytes() const { return size_t(4) << 20; }
    /// In low precision, channels are padded to a multiple of this (with_precision).
    virtual int channel_multiple() const = 0;
    /// May be called from one other thread at any time.
    virtual SystemSample sample() = 0;
    /// A range on a profiler's timeline (NVTX) until the result is destroyed; null without
    /// profiler.
    virtual std::shared_ptr<void> range(const std::string& name) const = 0;
    /// Bytes. On CPUs: this process's peak so far, data set included. On GPUs: in use on the device
    /// now.
    virtual size_t memory_taken() const = 0;

    /// Bytes that are free on a GPU now; nothing on CPUs, which have a budget of their own.
    virtual std::optional<size_t> device_memory_free() const { return std::nullopt; }
    /// Reserves host memory that the taker will use for other things than tensors; throws
    /// Exit::out_of_memory. Does nothing on GPUs, whose tensors are not in host memory.
    virtual void set_aside(size_t /*bytes*/, const std::string& /*what_for*/, Taker) {}

    virtual Buffer allocate(size_t bytes) = 0;  ///< before the first step only; throws Exit::out_of_memory
    /// As allocate(), for what allreduce() sums: where that is fastest.
    virtual Buffer allocate_summed(size_t bytes) { return allocate(bytes); }
    /// Host memory as the device sees it: itself on the CPU, a copy on a GPU. It must outlive the
    /// Buffer.
    virtual Buffer resident(void* host, size_t bytes) = 0;
    /// Host memory that the device reads where it is, while steps run, and that takes none of its
    /// own. As resident() where the device's memory is the host's. It must outlive the Buffer.
    virtual Buffer mapped(void* host, size_t bytes) { return resident(host, bytes); }
    /// Memory that steps write and the host reads, at one address: after a mark, while later steps
    /// run.
    virtual Buffer allocate_shared(size_t bytes) { return allocate(bytes); }
    virtual void upload(void* to, const void* from, size_t bytes) = 0;
    virtual void download(void* to, const void* from, size_t bytes) = 0;

    /// The backend's own part of a checkpoint, as floats on the device: the loss scale in f16, else
    /// nothing.
    virtual Tensor kept_state() = 0;

    /// Collective, before decide() of a program of a training: ranks with equal devices and equal
    /// batches decide alike from then on, because one of them measures and tells the others. Does
    /// nothing where nothing is measured.
    virtual void agree(const Outline&) {}
    /// How the ops of a program will run, and so what memory they take. May time alternatives on
    /// the device. The steps of the program are appended with these ways in their Bound.
    virtual std::shared_ptr<const Ways> decide(const Outline&) = 0;
    /// What was chosen by measuring, on the devices of all ranks that agreed; empty if nothing was.
    virtual std::string choices() const { return ""; }
    /// Before agree() and decide(): what choices() gave is chosen again, on equal devices.
    virtual void take_choices(const std::string&) {}

    /// Append an op's steps to the tape; the loss also writes Bound::stats. A backend has one
    /// function an op, in the file of the op's name.
    virtual void forward(const Op&, const Bound&, Tape&) = 0;
    virtual void backward(const Op&, const Bound&, Tape&) = 0;

    /// Supplies batches of up to `rows` images to steps, `image_bytes` of them at first. `ahead`:
    /// batches that are claimed before the one that is taken.
    virtual std::unique_ptr<Feed> feed(int rows, size_t image_bytes, int ahead) = 0;
    virtual void gather(const Gather&, Tape&) = 0;
    virtual void zero(Tensor, Tape&) = 0;
    /// to = factor * from, or to += factor * from.
    virtual void add_scaled(const Tensor& from, float factor, const Tensor& to, bool accumulate, Tape&) = 0;
    /// Copies this rank's requests into the batch sums, at every run of the tape; null: there are
    /// none. Keeps in `own` what the sums are before they are summed over ranks; null: does not.
    virtual void request(const Requests*, BatchStats*, BatchStats* own, Tape&) = 0;
    /// Sums a slice of the gradient arena over all ranks, in place. Overlaps with the compute that
    /// follows on the tape. The first `counts` elements are counts, which are summed exactly in any
    /// precision.
    virtual void allreduce(Tensor bucket, size_t counts, Tape&) = 0;
    /// Waits for every all-reduce started so far; this wait is the exposed communication.
    virtual void wait_allreduce(Tape&) = 0;

    // Logical ranks: several that one rank computes.
    /// How many of them are computed side by side, each in memory of its own.
    virtual int lanes() const { return 1; }
    /// What appends to tapes of a lane; its owner is this backend. Of lane 0 or later.
    virtual Backend& lane(int) { return *this; }
    /// Runs tapes[i] on lane i % lanes(), those of a lane one after the other.
    virtual void side_by_side(const std::vector<Tape>& tapes, Tape& to) {
        for (const Tape& tape : tapes) to.append(tape);
    }
    /// Adds gradients [begin, end), of one logical rank, to the sums, and notes their exponents.
    /// `gradients` is at offset 0 of an arena.
    virtual void deposit(const ExactSums&, const float* gradients, size_t begin, size_t end, Tape&) = 0;
    /// After a lane's last deposit of [begin, end). When it stands on the tapes of all lanes: sums
    /// over ranks, as the other allreduce(). Buckets come in one order on all lanes.
    virtual void allreduce(const ExactSums&, size_t begin, size_t end, Tape&) = 0;
    /// After side_by_side(): waits for all sums started so far, and for the largest exponents of
    /// all ranks. Writes the whole arena: gradients = sums, rounded once; of a tensor that had one
    /// that is not finite: NaN. Then sets tops, seen, redo and sums for the next step, or for this
    /// one again. It does not fit if all are finite, and one had an exponent above its tensor's.
    virtual void withdraw(const ExactSums&, float* gradients, Tape&) = 0;

    /// One optimizer step. If the loss or a gradient is not finite: all ranks skip it.
    virtual void update(const Update&, Tape&) = 0;
    /// After update().
    virtual void look_ahead(const LookAhead&, Tape&) = 0;
    virtual void record(const Record&, Tape&) = 0;
    /// Ends an evaluation step: adds this rank's sums to the totals and moves the offset on.
    virtual void accumulate(const BatchStats*, EvalTotals*, int64_t images, Counters*, int64_t global_batch, Tape&) = 0;

    /// Makes a tape runnable. CPU: a loop over the steps. CUDA: captured once, then replayed.
    virtual std::function<void()> finish(Tape) = 0;
    /// From now on each run appends when its steps ran; null: no longer. Does nothing on GPUs,
    /// whose steps only launch: use a profiler.
    virtual void trace(std::vector<Span>*) {}
    /// Runs the steps one after another; the seconds that each took on the device.
    virtual std::vector<double> time_steps(const Tape&) = 0;
    virtual void synchronize() = 0;
    /// A mark behind all that was launched so far. The result waits until the device has come to
    /// it, and for nothing after it.
    virtual std::function<void()> mark() {
        return [] {};
    }
    /// Keeps the host's cores free for so long: a running tape waits before its next step. Called
    /// from another thread.
    virtual void pause(double /*seconds*/) {}
    /// Whether a step has ended when its call returns: then reading the ring after each is free.
    virtual bool synchronous() const = 0;
};

/// `device` is cpu, cuda or auto. Collective: backends connect to one another as they are made.
/// Throws Exit::usage with the reason, on all ranks alike, if the device cannot be had.
std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions&, Comm&);
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions&, Comm&);
/// Of what the CPU backend was linked with: onednn.
Versions cpu_versions();

}  // namespace convoy
