// Selects how the ops of a program run, and appends its launches to a tape. Logical ranks have a
// separate part.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "model/graph.h"
#include "ops/algorithms.h"
#include "ops/checksum.h"
#include "ops/exact_sums.h"
#include "ops/records.h"
#include "ops/tape.h"

namespace convoy {

/// Requests of this rank to all ranks. The host may set them at any time. The next step sums them
/// over ranks together with the gradients. So all ranks learn of a request at the same step,
/// without another collective.
struct Requests {
    std::atomic<int> stop{0}, checkpoint{0};
    /// make a snapshot of the state before each step, because steps take long
    std::atomic<int> snapshot{0};
};

/// The operands of one op in one program. They are valid only while the tape is built; a launch
/// keeps the tensors, never the OpArguments. Vectors are indexed by ValueId or ParamId. A tensor
/// without data is either not wanted or has no memory (Algorithms::memory).
struct OpArguments {
    int op;            ///< index in Graph::ops
    std::string name;  ///< the op's name, used in the names of its launches: "stage1.block0.conv1"
    const Graph& graph;
    const Algorithms& algorithms;                ///< made by OpTuning::select() for this program
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

    void* own_saved() const { return saved[op]; }
    /// Returns the identity of a launch of this op. `what` precedes the op's name: "conv forward".
    LaunchId launch(LaunchPhase phase, const std::string& what) const { return {op, phase, what + " " + name}; }
};

/// Selects how each op of a program runs, by measuring where that pays.
class OpTuning {
public:
    /// Collective, called before select() of each program. Ranks with the same kind of device and
    /// batch size select alike from then on. One rank's measurements count for all of them. Does
    /// nothing where nothing is measured.
    virtual void tune(const ProgramShape&) {}
    /// Selects how each op of a program runs, and so what memory it takes. May time alternatives on
    /// the device. The program's OpArguments must refer to the result.
    virtual std::shared_ptr<const Algorithms> select(const ProgramShape&) = 0;
    /// Returns the measured times and selected plans as text; empty if nothing was measured. On
    /// GPUs they are those of all ranks' devices, on CPUs those of this rank's kind of processor.
    virtual std::string tuning() const { return ""; }
    /// Restores what tuning() returned, so that equal devices select the same again. Call it before
    /// tune() and select().
    virtual void restore_tuning(const std::string&) {}

protected:
    ~OpTuning() = default;
};

/// All functions only append to the tape: the work is done when the tape runs.
class TapeBuilder {
public:
    /// Appends an op's launches to the tape; the loss also writes OpArguments::stats. A backend has
    /// one function per op, in the file with the op's name.
    virtual void forward(const Op&, const OpArguments&, Tape&) = 0;
    virtual void backward(const Op&, const OpArguments&, Tape&) = 0;
    /// Appends the remaining launches that write the param_gradients of all ops appended by
    /// backward() so far. Call it before a launch that reads them.
    virtual void finish_gradients(Tape&) {}

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
    /// Starts an all-reduce (sum) of f32 values out of place: `from` keeps its values. For
    /// measurements, because training only needs the one in place.
    virtual void allreduce_into(Tensor from, Tensor to, Tape&) = 0;
    /// Waits for every all-reduce started so far. The time of this wait is the exposed
    /// communication.
    virtual void wait_allreduce(Tape&) = 0;

    /// Performs one optimizer step. All ranks skip it if the loss or a gradient is not finite.
    virtual void update(const Update&, Tape&) = 0;
    /// Averages the weights with the slow weights; called after update().
    virtual void look_ahead(const LookAhead&, Tape&) = 0;
    virtual void record(const Record&, Tape&) = 0;
    /// Adds the bits of values to a checksum, in steps that are audited.
    virtual void checksum(const Checksum&, Tape&) = 0;
    /// Ends an evaluation step: adds this rank's sums to the totals and advances the offset.
    virtual void accumulate(const BatchStats*, EvalTotals*, int64_t images, Counters*, int64_t global_batch, Tape&) = 0;

protected:
    ~TapeBuilder() = default;
};

class Backend;

/// Logical ranks (--virtual-ranks): one rank may compute several of them, and their gradients are
/// summed exactly. Lanes compute logical ranks side by side, each in its own memory.
class LogicalLanes {
public:
    /// Returns the backend that appends to tapes of a lane. Lanes are counted from 0, and there are
    /// DeviceFacts::lanes. This backend owns it.
    virtual Backend& lane(int) = 0;
    /// Runs tapes[i] on lane i % DeviceFacts::lanes. The tapes of a lane run one after the other.
    virtual void side_by_side(const std::vector<Tape>& tapes, Tape& to) {
        for (const Tape& tape : tapes) to.append(tape);
    }
    /// Adds gradients [begin, end) of one logical rank to the sums, and notes their exponents.
    /// `gradients` points to offset 0 of an arena.
    virtual void accumulate_exact(const ExactSums&, const float* gradients, size_t begin, size_t end, Tape&) = 0;
    /// Reports that a lane has added all of [begin, end); appended after the last
    /// accumulate_exact() into that range. Once all lanes have reported, the all-reduce of these
    /// sums starts. All lanes must have their buckets in the same order.
    virtual void allreduce(const ExactSums&, size_t begin, size_t end, Tape&) = 0;
    /// Finishes a step; called after side_by_side(). Waits for all all-reduces started so far, and
    /// for the largest exponents of all ranks. Then writes the whole gradient arena: each sum,
    /// rounded once. A tensor in which some gradient was not finite gets NaN. Finally sets tops,
    /// seen, redo and sums for the next step. `redo` asks to repeat this step. It is 1 if a
    /// finite tensor had a gradient with an exponent above its `top`.
    virtual void finalize_exact(const ExactSums&, float* gradients, Tape&) = 0;

protected:
    ~LogicalLanes() = default;
};

}  // namespace convoy
