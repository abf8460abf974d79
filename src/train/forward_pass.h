// Computes the outputs of a split batch by batch, in its order, without training. Each rank
// computes its share of a batch, and rank 0 gathers the outputs.
#pragma once
#include <functional>
#include <vector>

#include "comm/comm.h"
#include "plan/split.h"
#include "supply/data_set.h"
#include "train/evaluator.h"
#include "train/program.h"

namespace convoy {

class ForwardPass {
public:
    /// Collective. Builds the programs for batches of `global_batch` samples.
    ForwardPass(Comm&, Backend&, const Graph&, const State&, const DataSet&, const Preprocessing&,
                int64_t global_batch);

    int64_t batches() const { return epoch_.steps(); }

    struct Result {
        Shape input, output;         ///< shapes of this rank's share of the batch; n may be 0
        int64_t samples = 0;         ///< samples of the whole batch
        std::vector<float> outputs;  ///< [samples, classes] logits in the order of the split; on rank 0 only
    };
    /// Collective. Computes the batch with index `batch`.
    Result run(int64_t batch);

private:
    /// The program for one batch size: of a full batch, or of the last one.
    struct Pass {
        int64_t samples;
        Tensor input, logits;
        Buffer arena;
        std::function<void()> run;
    };
    Pass pass_of(int64_t samples, const State&, const DataSet&, const Preprocessing&);
    /// Returns the logits of all ranks, in order, on rank 0.
    std::vector<float> gather(const Pass&);

    Comm& comm_;
    Backend& backend_;
    const Graph& graph_;
    const int64_t global_batch_;
    const EpochSteps epoch_;
    Buffer counters_;
    std::vector<Pass> passes_;  // of a full batch, then of a smaller last one, if they occur
};

}  // namespace convoy
