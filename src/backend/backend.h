// The interface between Convoy and its devices. A backend builds the tape of each program once, and
// then replays it. A step takes no arguments: its data set or staged batch, permutation, schedule
// and counters already lie on the device. Backend has one part per task; a function takes the
// smallest part that suffices.
#pragma once
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/feed.h"
#include "backend/tape_builder.h"
#include "backend/tensor_memory.h"
#include "comm/host.h"
#include "model/precision.h"
#include "ops/conv_by.h"

namespace convoy {

class Comm;

/// Names of libraries, each with its version.
using Versions = Facts;

/// Facts about a device and this rank's place on it, which do not change once it is made.
struct DeviceFacts {
    std::string device;  ///< a line for people: "AMD EPYC (AVX-512 bf16), oneDNN 3.2.0"
    /// Equal wherever results have equal bits. It names the processor with its instruction set, or
    /// the GPU, and the version of oneDNN or cuDNN.
    std::string kind;
    /// Versions of libraries that only this device needs. oneDNN is in every executable, so
    /// cpu_versions() returns it.
    Versions versions{};
    Facts identity{};         ///< which GPU this is as "gpu", "gpu_serial" and "gpu_uuid"; empty on CPUs
    int threads = 1;          ///< CPU threads that compute
    std::string placement{};  ///< which processors of the host this rank's threads run on
    std::string links{};      ///< how the device is linked to others and to the host; empty on CPUs
    /// The transport of all-reduces: "NCCL over P2P/CUMEM, NET/IB/GDRDMA", or "NCCL" if its log
    /// shows no more. It is empty with one rank, and on CPUs, where MPI chooses.
    std::string transport{};
    /// Bytes of a gradient bucket, the same on all ranks. Buckets are so large that the latency of
    /// an all-reduce does not matter.
    size_t bucket_bytes = size_t(4) << 20;
    int channel_multiple = 1;  ///< channels are padded to a multiple of this in low precision (with_precision)
    int lanes = 1;             ///< logical ranks that are computed side by side
    /// True if a step has ended when its call returns. The host may then read the ring after each
    /// step at no cost, and read tensors in place.
    bool synchronous = false;
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
    bool dry_run = false;
    /// results must not depend on the number of ranks and threads (--virtual-ranks)
    bool invariant = false;

    bool bind = true;  ///< bind each rank to its share of the node's cores, unless the launcher did
    /// seconds for timing: of cuDNN's plans and our kernels on GPUs, of convolutions on CPUs.
    /// INFINITY: no limit on GPUs, 5 s on CPUs. Operations not timed by then use their first
    /// candidate
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

/// Runs tapes on the device, and waits for them.
class TapeRunner {
public:
    /// Makes a tape runnable. CPU: a loop over its launches. CUDA: the first run is eager, the
    /// second is captured, and later ones are replayed (captured_tape.h).
    virtual std::function<void()> finish(Tape) = 0;
    /// Makes each run append the times of its launches to the vector; null: stops that. Does
    /// nothing on GPUs, whose launches are asynchronous: use a profiler there.
    virtual void trace(std::vector<Span>*) {}
    /// Runs the launches one after another, and returns the seconds that each took on the device.
    virtual std::vector<double> time_launches(const Tape&) = 0;
    virtual void synchronize() = 0;
    /// Marks the end of everything launched so far. The returned function blocks until the device
    /// has reached the mark, but does not wait for later launches.
    virtual std::function<void()> mark() {
        return [] {};
    }
    /// Keeps the host's cores free for some seconds: a running tape waits before its next launch.
    /// Called from another thread.
    virtual void pause(double /*seconds*/) {}

protected:
    ~TapeRunner() = default;
};

/// A device of one rank, with all parts of the interface.
class Backend : public TensorMemory, public OpTuning, public TapeBuilder, public LogicalLanes, public TapeRunner {
public:
    virtual ~Backend() = default;

    const DeviceFacts& facts() const { return facts_; }
    /// Returns the current load. One other thread may call it at any time.
    virtual SystemSample sample() = 0;
    /// Returns the GPU's settings, links and error counters now, as its driver reports them; empty
    /// on CPUs.
    virtual Facts health() const { return {}; }
    /// Opens a range on a profiler's timeline (NVTX) that ends when the result is destroyed.
    /// Returns null without a profiler.
    virtual std::shared_ptr<void> range(const std::string& /*name*/) const { return nullptr; }
    /// Creates a feed of batches of up to `rows` images, with room for `image_bytes` at first.
    /// Feed::claim() explains `ahead`.
    virtual std::unique_ptr<Feed> feed(int rows, size_t image_bytes, int ahead) = 0;

    Backend& lane(int) override { return *this; }
    // allreduce() of LogicalLanes sums the integers of logical ranks, that of TapeBuilder floats.
    using LogicalLanes::allreduce;
    using TapeBuilder::allreduce;

protected:
    DeviceFacts facts_;
};

/// Creates the backend for `device`: cpu, cuda or auto. Collective, because backends connect to one
/// another. Throws Exit::usage with the reason, on all ranks alike, if the device is not available.
std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions&, Comm&);
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions&, Comm&);
/// Returns the version of the library that the CPU backend was linked with: onednn.
Versions cpu_versions();

}  // namespace convoy
