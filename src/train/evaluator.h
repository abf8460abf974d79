// Exact evaluation of a split, shared over ranks: forward programs for full and last batches, and sums over all of them.
#pragma once
#include "comm/comm.h"
#include "train/data_set.h"
#include "train/program.h"

namespace convoy {

struct EvalResult {
    double loss = 0, accuracy = 0, seconds = 0;
    int64_t correct = 0, images = 0;
};

/// How pixels become the model's input.
struct Normalisation {
    std::vector<float> mean, stddev;  ///< by channel, units of pixel / 255
};

class Evaluator {
public:
    Evaluator(Comm&, Backend&, const Graph&, const State&, const DataSet&, Normalisation, int64_t global_batch);
    size_t arena_bytes() const;
    /// Builds the tapes and keeps the arena, which has at least arena_bytes().
    void build(Buffer arena);
    /// Collective. Running statistics must be equal on all ranks. Nothing comes back if `stop` became true on some rank
    /// before the end.
    std::optional<EvalResult> run(const std::function<bool()>& stop = {});

private:
    Comm& comm_;
    Backend& backend_;
    const Graph& graph_;
    const State& state_;
    const DataSet& data_;
    Normalisation normalisation_;
    int64_t full_steps_ = 0, steps_ = 0;
    std::vector<ProgramPlan> plans_;           // of a full batch, then of the last one, as far as there are such
    std::vector<std::function<void()>> runs_;  // by plan
    Buffer arena_, counters_, totals_;
};

}  // namespace convoy
