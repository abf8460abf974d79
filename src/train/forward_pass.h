// Forwards a split batch by batch, in its order and without training: each rank its share of a
// batch, whose outputs come together on rank 0.
#pragma once
#include <functional>
#include <vector>

#include "comm/comm.h"
#include "plan/split.h"
#include "train/data_set.h"
#include "train/evaluator.h"
#include "train/program.h"

namespace convoy {

class ForwardPass {
public:
    /// Collective.
    ForwardPass(Comm&, Backend&, const Graph&, const State&, const DataSet&, const Preprocessing&,
                int64_t global_batch);

    int64_t batches() const { return epoch_.steps(); }

    struct Result {
        Shape input, output;         ///< of this rank's share of the batch; n may be 0
        int64_t samples = 0;         ///< of the whole batch
        std::vector<float> outputs;  ///< [samples, classes] logits in the order of the split; on rank 0 only
    };
    /// Collective.
    Result run(int64_t batch);

private:
    /// Of a full batch, or of the last one.
    struct Pass {
        int64_t samples;
        Tensor input, logits;
        Buffer arena;
        std::function<void()> run;
    };
    Pass pass_of(int64_t samples, const State&, const DataSet&, const Preprocessing&);
    /// Rows of all ranks, in order, on rank 0.
    std::vector<float> gather(const Pass&);

    Comm& comm_;
    Backend& backend_;
    const Graph& graph_;
    const int64_t global_batch_;
    const EpochPlan epoch_;
    Buffer counters_;
    std::vector<Pass> passes_;  // of full batches, then of the last one, as far as there are such
};

}  // namespace convoy
