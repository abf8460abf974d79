// Evaluates every image of a split once. Ranks share each batch, and add up their totals. Full
// batches and a smaller last one have separate programs.
#pragma once
#include "comm/comm.h"
#include "plan/split.h"
#include "supply/data_set.h"
#include "train/program.h"

namespace convoy {

struct EvalResult {
    double loss = 0, accuracy = 0, top5_accuracy = 0, seconds = 0;
    int64_t correct = 0, images = 0;
};

/// Test-time augmentation: the views of an image whose logits are averaged.
enum class Tta {
    plain,
    mirror,  ///< the image and its mirror image
    /// The two views of `mirror` have half of the weight. Four views have the other half: two
    /// shifted images and their mirror images. One is shifted by a pixel up and left, the other
    /// down and right, with reflected borders.
    full,
};
/// A view and the weight of its logits. Weights sum to 1.
struct WeighedView {
    Augment view;
    float weight;
};
std::vector<WeighedView> views_of(Tta, const Preprocessing&);
/// Throws Exit::usage if images of this split do not allow these views.
void check_views(Tta, const SplitInfo&, const Preprocessing&);

class Evaluator {
public:
    /// Collective. The loss is the plain cross-entropy, even if the graph is trained with label
    /// smoothing. `logical`: number of logical ranks that share a batch; 0: the number of ranks.
    Evaluator(Comm&, Backend&, const Graph&, const State&, const DataSet&, Preprocessing, int64_t global_batch,
              Tta = Tta::plain, int64_t logical = 0);
    size_t arena_bytes() const;
    /// Builds the tapes. Takes one arena per lane in use, each of at least arena_bytes().
    void build(std::vector<Buffer> arenas);
    /// Collective. Evaluates the split. Running statistics must be equal on all ranks. Returns
    /// nothing if `stop` returned true on a rank before the end.
    std::optional<EvalResult> run(const std::function<bool()>& stop = {});

private:
    /// The programs of this rank's logical ranks for one batch size.
    struct Pass {
        std::vector<PreparedProgram> prepared;
        std::function<void()> run{};
    };
    Tape tape_of(const PreparedProgram&, int logical, Backend&);
    EvalTotals totals_of_all();

    Comm& comm_;
    Backend& backend_;
    const BatchSplit batch_split_;
    const Share logical_;  // logical ranks of this rank
    const bool in_lanes_;  // true: logical ranks are computed separately, in lanes, even if there is only one
    const Graph graph_;    // a copy without label smoothing
    const State& state_;
    const DataSet& data_;
    Preprocessing preprocessing_;
    const std::vector<WeighedView> views_;
    int64_t full_steps_ = 0, steps_ = 0;
    std::unique_ptr<Supply> supply_;    // null: devices read batches from the split
    std::vector<Pass> passes_;          // of a full batch, then of a smaller last one, if they occur
    std::vector<Buffer> sums_;          // sums of the logits of all views
    std::vector<Buffer> arenas_;        // [lanes]
    Buffer counters_, totals_, stats_;  // [logical ranks of this rank]
};

}  // namespace convoy
