// Exact evaluation of a split, shared over ranks: forward programs for full and last batches, and
// sums over all of them.
#pragma once
#include "comm/comm.h"
#include "plan/split.h"
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
    /// with. `logical`: ranks that a batch is dealt to; 0: as many as there are.
    Evaluator(Comm&, Backend&, const Graph&, const State&, const DataSet&, Preprocessing, int64_t global_batch,
              Tta = Tta::plain, int64_t logical = 0);
    size_t arena_bytes() const;
    /// Builds the tapes and keeps the arenas, one a lane that is used, each of at least
    /// arena_bytes().
    void build(std::vector<Buffer> arenas);
    /// Collective. Running statistics must be equal on all ranks. Nothing comes back if `stop`
    /// became true on some rank before the end.
    std::optional<EvalResult> run(const std::function<bool()>& stop = {});

private:
    /// A batch, and what this rank's logical ranks do of it.
    struct Pass {
        std::vector<ProgramPlan> plans;
        std::function<void()> run{};
    };
    Tape tape_of(const ProgramPlan&, int logical, Backend&);
    EvalTotals totals_of_all();

    Comm& comm_;
    Backend& backend_;
    const Dealing dealing_;
    const Share logical_;  // of this rank
    const bool in_lanes_;  // each logical rank by itself, also if there is one
    const Graph graph_;    // a copy without label smoothing
    const State& state_;
    const DataSet& data_;
    Preprocessing preprocessing_;
    const std::vector<WeighedView> views_;
    int64_t full_steps_ = 0, steps_ = 0;
    std::unique_ptr<Supply> supply_;    // null: devices read batches from the split
    std::vector<Pass> passes_;          // of a full batch, then of the last one, as far as there are such
    std::vector<Buffer> sums_;          // the logits of all views
    std::vector<Buffer> arenas_;        // by lane
    Buffer counters_, totals_, stats_;  // by logical rank
};

}  // namespace convoy
