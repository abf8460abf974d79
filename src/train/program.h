// A program is a graph bound to a batch size and a direction: a tape that runs one step. The
// programs of a training share one activation arena, because only one of them runs at a time.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "model/graph.h"
#include "plan/buckets.h"
#include "plan/memory.h"
#include "plan/split.h"
#include "train/state.h"

namespace convoy {

struct ProgramSpec {
    int batch = 0;             ///< samples of this rank; 0: it only takes part in collectives
    int64_t global_batch = 0;  ///< samples of all ranks
    int64_t first = 0;         ///< position of this rank's first sample in the global batch
    bool training = false;
    bool mixes = false;  ///< its images have two labels
};

/// The buffers of a program and where they lie in the arena.
struct ProgramPlan {
    ProgramSpec spec;
    std::vector<Lifetime> buffers;
    std::vector<int> value, gradient, saved;  ///< buffer by ValueId, ValueId, op index; none: not there
    int labels = none;
    int mixed = none;  ///< MixedLabels, one after the other
    MemoryPlan memory;
    GradientFlow gradients;
    std::shared_ptr<const Ways> ways;  ///< how the backend runs the ops
};
/// Collective, as Backend::agree().
ProgramPlan plan_program(const Graph&, Backend&, const ProgramSpec&);

/// The plans of this rank's logical ranks for a batch of so many samples. Collective if `plan` is,
/// which all ranks call alike: for the larger share, then for the smaller, if there are two.
std::vector<ProgramPlan> plan_parts(const Dealing&, int rank, int64_t samples,
                                    const std::function<ProgramPlan(const Share&)>& plan);

/// One of several views of a batch: logits are summed over them by weight, and the last view's
/// program measures the sum.
struct View {
    Tensor sum;  ///< f32, like the logits
    float weight;
    bool first, last;
};

/// Of a program that computes one of several logical ranks.
struct LogicalRank {
    Operands operands;
    const ExactSums& sums;  ///< its gradients go there
    bool last;              ///< of its lane: what it adds to the sums completes them
};

/// What a program works on.
struct ProgramContext {
    const Graph& graph;
    Backend& backend;
    const State& state;
    Buffer arena;  ///< at least ProgramPlan::memory.bytes
    uint64_t seed = 0;
    bool sync_bn = false;
    Counters* counters = nullptr;          ///< device
    const Requests* requests = nullptr;    ///< host flags that a training step sums over ranks; null: none
    std::optional<View> view{};            ///< of an evaluation
    const Operands* operands = nullptr;    ///< null: those of `state`
    const LogicalRank* logical = nullptr;  ///< of training; its operands are used
};

/// What one op wrote, for the search of the first NaN.
struct Probe {
    size_t after;      ///< steps of the tape that must have run
    std::string name;  ///< "conv1, forward"
    Tensor output;
};

struct Program {
    Tape tape;                  ///< gather, forward, in training backward and all-reduce; the caller appends the rest
    Tensor input, labels;       ///< [n, h, w, c], i32 [n]
    MixedLabels mixed{};        ///< if ProgramSpec::mixes
    Tensor logits;              ///< f32 [n, 1, 1, classes], intact when the program ends
    std::vector<Probe> probes;  ///< in the order of the tape: outputs forward, gradients backward
};
/// `gather` appends the steps that fill the input and all labels. In training the gradient buckets
/// are summed over ranks and waited for; those of a logical rank are deposited.
Program lower(const ProgramContext&, const ProgramPlan&, const std::vector<Bucket>&,
              const std::function<void(Program&)>& gather);

}  // namespace convoy
