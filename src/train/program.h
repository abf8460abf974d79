// A program is a graph bound to a batch size and a direction, as a tape that runs one batch. The
// programs of a training share one activation arena, because only one of them runs at a time.
//
// Example: a batch of 4 images [8, 8, 4] in f32 passes through conv1 (8 filters of 3x3), a ReLU,
// the linear layer head (10 classes) and the loss. With 4 ops, op i has forward event 1 + i and
// backward event 8 - i. Event 0 is the gather, event 9 the end. plan/memory.h places the buffers:
//
//   buffer              bytes  events  offset  last reader
//   images              4,096    0..8  24,576  the weight gradient of conv1
//   conv1               8,192    1..2       0  the ReLU's forward
//   ReLU                8,192    2..7   8,192  the ReLU's backward
//   logits                160    3..9  28,672  predictions, after the end
//   gradient of logits    160    5..6  16,384  the backward of head
//   gradient of ReLU    8,192    6..7       0  the ReLU's backward; conv1 is no longer needed
//   gradient of conv1   8,192    7..8  16,384  the weight gradient of conv1
//   labels                 16    0..9  28,864  predictions, after the end
//
// The arena takes 28,928 bytes. Without sharing it would take 37,312.
//
// The gradient arena has 5,440 elements: 16 batch sums, head.weight 5,120, head.bias 16 (10 and
// padding), conv1.weight 288. Buckets of at least 1,024 elements are [0, 5136) and [5136, 5440).
// lower() makes this tape: gather; forward of conv1, ReLU, head and loss; requests; backward of
// loss and head; all-reduce [0, 5136); backward of ReLU and conv1; all-reduce [5136, 5440); wait.
// So the first all-reduce overlaps with the backward of ReLU and conv1.
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
    int batch = 0;             ///< samples of this rank; 0: the rank only takes part in collectives
    int64_t global_batch = 0;  ///< samples of all ranks
    int64_t first = 0;         ///< position of this rank's first sample in the global batch
    bool training = false;
    bool mixes = false;  ///< its images have two labels (mixup, CutMix)
};

/// A program before it has memory: its algorithms, and its buffers with their offsets in the arena.
struct PreparedProgram {
    ProgramSpec spec;
    std::vector<Lifetime> buffers;
    std::vector<int> value, gradient, saved;  ///< buffers by ValueId, by ValueId, by op; none: no buffer
    int labels = none;
    int mixed = none;  ///< the arrays of MixedLabels, one after the other
    MemoryLayout memory;
    GradientFlow gradients;
    std::shared_ptr<const Algorithms> algorithms;  ///< how the backend runs the ops
};
/// Selects how the ops run, and places their buffers in the arena. Collective, because
/// OpTuning::tune() is.
PreparedProgram prepare_program(const Graph&, OpTuning&, const ProgramSpec&);

/// Prepares the programs of a rank's logical ranks for a batch of `samples`. Shares have at most
/// two sizes. All ranks call `prepare` for both, the larger first, because `prepare` may be
/// collective. All ranks then select algorithms for both sizes, and a share runs alike on every
/// rank. Without logical ranks, only the rank's own share is prepared, unless `every_size` is true.
std::vector<PreparedProgram> prepare_parts(const BatchSplit&, int rank, int64_t samples,
                                           const std::function<PreparedProgram(const Share&)>& prepare,
                                           bool every_size = false);

/// One of several views of a batch. Logits are added up with weights over the views, and the last
/// view's program measures loss and accuracy of the sum.
struct View {
    Tensor sum;  ///< f32, like the logits
    float weight;
    bool first, last;
};

/// The operands of a program that computes one of several logical ranks.
struct LogicalRank {
    Operands operands;
    const ExactSums& sums;  ///< its gradients are added to these
    bool last;              ///< it is the last of its lane, so it completes the lane's sums
};

/// The graph, device and tensors that a program works on.
struct ProgramContext {
    const Graph& graph;
    Backend& backend;
    const State& state;
    Buffer arena;  ///< at least PreparedProgram::memory.bytes
    uint64_t seed = 0;
    bool sync_bn = false;
    Counters* counters = nullptr;          ///< device
    const Requests* requests = nullptr;    ///< host flags that a training step all-reduces; null: none
    std::optional<View> view{};            ///< evaluation only
    const Operands* operands = nullptr;    ///< null: those of `state`
    const LogicalRank* logical = nullptr;  ///< training only; its operands are then used
    /// training only; receives the checksum of loss and gradients before they are all-reduced (its
    /// field `values` is not used); null: none
    const Checksum* checksum = nullptr;
    bool local = false;  ///< training only: gradients are not all-reduced
};

/// The output of one op, for finding the first NaN.
struct Probe {
    size_t after;      ///< number of launches of the tape that must run to compute `output`
    std::string name;  ///< "conv1 (conv)", or "conv1 (conv backward)" for a gradient
    Tensor output;
};

struct Program {
    Tape tape;                  ///< gather, forward; in training also backward, all-reduce; the caller appends the rest
    Tensor input, labels;       ///< [n, h, w, c], i32 [n]
    MixedLabels mixed{};        ///< set if ProgramSpec::mixes
    Tensor logits;              ///< f32 [n, 1, 1, classes], intact when the program ends
    std::vector<Probe> probes;  ///< in the order of the tape: outputs of forward, gradients of backward
};
/// Appends the launches of a graph to a tape. `gather` appends those that fill the input and all
/// labels. In training, the tape all-reduces the gradient buckets and waits for them, unless they
/// are `local`. A logical rank's gradients are added to its ExactSums instead.
Program lower(const ProgramContext&, const PreparedProgram&, const std::vector<Bucket>&,
              const std::function<void(Program&)>& gather);

}  // namespace convoy
