// Exact evaluation of a split, shared over ranks: forward programs for full and last batches, and
// sums over all of them.
#pragma once
#include "comm/comm.h"
#include "train/data_set.h"
#include "train/program.h"

namespace convoy {

struct EvalResult {
    double loss = 0, accuracy = 0, top5_accuracy = 0, seconds = 0;
    int64_t correct = 0, images = 0;
};

/// Test-time augmentation: which views of an image a model sees, whose logits are then averaged.
enum class Tta {
    plain,
    mirror,  ///< the image and its mirror image
    /// half of these two, half of the same two of the image one pixel up and left, and one down and
    /// right (reflected border)
    full,
};
/// A view, and the weight of its logits; weights sum to 1.
struct WeighedView {
    Augment view;
    float weight;
};
std::vector<WeighedView> views_of(Tta, const Preprocessing&);
/// Throws Exit::usage if these images have no such views.
void check_views(Tta, const SplitInfo&, const Preprocessing&);

class Evaluator {
public:
    /// Collective. The loss is the plain cross-entropy, whatever smoothing the graph is trained
    /// with.
    Evaluator(Comm&, Backend&, const Graph&, const State&, const DataSet&, Preprocessing, int64_t global_batch,
              Tta = Tta::plain);
    size_t arena_bytes() const;
    /// Builds the tapes and keeps the arena, which has at least arena_bytes().
    void build(Buffer arena);
    /// Collective. Running statistics must be equal on all ranks. Nothing comes back if `stop`
    /// became true on some rank before the end.
    std::optional<EvalResult> run(const std::function<bool()>& stop = {});

private:
    Comm& comm_;
    Backend& backend_;
    const Graph graph_;  // a copy without label smoothing
    const State& state_;
    const DataSet& data_;
    Preprocessing preprocessing_;
    const std::vector<WeighedView> views_;
    int64_t full_steps_ = 0, steps_ = 0;
    std::unique_ptr<Supply> supply_;           // null: devices read batches from the split
    std::vector<ProgramPlan> plans_;           // of a full batch, then of the last one, as far as there are such
    std::vector<std::function<void()>> runs_;  // by plan
    std::vector<Buffer> sums_;                 // by plan: the logits of all views
    Buffer arena_, counters_, totals_;
};

}  // namespace convoy
