// The programs of a training and their memory. A program trains one batch size in one stage, or
// evaluates. All are built before the first step. They share arenas, because one runs at a time.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "train/audit_memory.h"
#include "train/logical_ranks.h"
#include "train/record_ring.h"
#include "train/setup.h"
#include "train/state_snapshot.h"

namespace convoy {

/// A graph with the same parameters for images of another size. A training may begin with it.
struct EarlierGraph {
    Graph graph;
    int64_t until;  ///< epoch from which on the next graph is trained, from 0
};

class TrainingPrograms {
public:
    /// An optimizer step of one batch size: a tape that runs as a whole, or op by op.
    struct Runnable {
        int64_t samples;                          ///< samples of all ranks
        std::vector<PreparedProgram> prepared{};  ///< one for this rank, or one for each of its logical ranks
        Tape tape{};                              ///< without `ending`
        std::vector<Program> parts{};             ///< [prepared] the programs in `tape`
        Tape ending{};                            ///< optimizer and record
        /// [distance - 1]: like `prepared`, for the rank `distance` places before; empty: no audits
        std::vector<std::vector<PreparedProgram>> audited{};
        // run() calls these:
        std::function<void()> whole{};  ///< the step at once; null: gradients(), then update()
        std::function<void()> gradients{}, update{};
        std::vector<std::function<void()>> audits{};  ///< [audited]: compute the checksums of these shares
    };

    /// Allocates parameters, gradients and optimizer state; see Trainer. The arguments must outlive
    /// this.
    TrainingPrograms(Comm&, Backend&, const Graph&, const DataSet& train, const DataSet* test, const TrainSetup&,
                     const Requests&, std::vector<EarlierGraph> earlier);

    int64_t steps_per_epoch() const { return epoch_steps_.steps(); }
    int64_t total_steps() const { return total_steps_; }
    int64_t tail() const { return epoch_steps_.tail; }
    const std::vector<EarlierGraph>& earlier() const { return earlier_; }
    const std::vector<Bucket>& buckets() const { return buckets_; }
    const State& state() const { return state_; }
    const BatchSplit& batch_split() const { return batch_split_; }

    /// Collective. Selects how the programs run, and lays out their memory. Call it first.
    void prepare();
    /// Returns the number of lanes: logical ranks that this rank computes at the same time, each
    /// with a separate arena.
    int lanes() const { return exact_ ? exact_->lanes() : 1; }
    /// Returns the bytes of all lanes' arenas; call after prepare().
    size_t arena_bytes() const { return arena_bytes_ * size_t(arenas()); }
    /// Returns the program that tables and profiles describe: a full batch of the last stage.
    const Runnable& measured() const { return stages_.back().programs.front(); }
    /// Returns how the ops of a full batch run; call after prepare().
    const Algorithms& algorithms() const { return *measured().prepared.front().algorithms; }
    /// Allocates activations and builds the tapes. Throws Exit::out_of_memory.
    void build();

    // Call the rest after build().
    /// Collective. Draws the initial weights, replaces those that rank 0 was given, and broadcasts
    /// rank 0's.
    void initialise(const ParamValues& given = {});
    /// Uploads the schedules of all steps. Learning rates are multiplied by `factor`.
    void upload_rates(double factor);
    const Runnable& program_of(int64_t step) const;  ///< steps count from 0
    /// Uploads the counters of `step`, and the order of samples in its epoch.
    void begin(int64_t step);
    /// Collective. Supplies the batch of `step`. run() calls this itself.
    void supply_batch(int64_t step);
    /// Collective. Runs a step with the batch of `step`. Locks `snapshot` while it writes weights,
    /// but not if the device runs the step as a whole. Returns the verdict if the step is audited;
    /// it is the same on all ranks. Otherwise returns nothing.
    std::optional<AuditVerdict> run(const Runnable&, int64_t step, StateSnapshot& snapshot);
    RecordRing& records() { return *records_; }
    LogicalRanks* exact() { return exact_.get(); }       ///< null: gradients are summed as floats
    Evaluator* evaluator() { return evaluator_.get(); }  ///< null without a test set

private:
    /// The steps in which images have one size, and in which the same parameters are trained.
    struct Stage {
        std::unique_ptr<const Graph> graph;  // parameters that are no longer trained are frozen in it
        bool resized;                        // its images have another size than those of graph_
        int64_t until;                       // first step of the next stage, from 0
        std::vector<Runnable> programs;      // of a full batch, then of an epoch's smaller last one, if they occur
    };

    Counters* counters() const { return static_cast<Counters*>(counters_.get()); }  ///< on the device
    void prepare_stages();
    Runnable prepare(const Stage&, int64_t samples);
    void build(Runnable&, const Stage&, const Update&);
    /// Builds the programs of the share of the rank `distance` places before this one; 0: its own.
    std::vector<Program> parts_of(const Runnable&, const Stage&, int distance);
    Program part_of(const Runnable&, const Stage&, int distance, size_t index);
    void build_audits(Runnable&, const Stage&);
    AuditVerdict audit(const Runnable&);
    BatchOrder batch_order() const;
    /// Returns the number of ranks before this one whose shares it computes at an audited step.
    int audited_ranks() const;
    int rank_before(int distance) const {
        return (comm_.rank() + comm_.size() - distance % comm_.size()) % comm_.size();
    }
    /// Returns the number of lanes for that many logical ranks.
    int lanes_for(size_t logical) const;
    /// Returns the number of lanes that have an arena. An audit may use one more than lanes().
    int arenas() const;
    Augment augment_for(const Stage&) const;
    const Stage& stage_of(int64_t step) const;  ///< steps count from 0
    Lines lines_shown(int64_t epoch, int32_t sample, int height, int width) const;

    Comm& comm_;
    Backend& backend_;
    const Graph& graph_;
    const DataSet& train_;
    const DataSet* const test_;
    const TrainSetup& setup_;
    const Requests& requests_;
    const BatchSplit batch_split_;
    const EpochSteps epoch_steps_;
    const int64_t total_steps_;
    State state_;
    std::vector<Bucket> buckets_;
    std::unique_ptr<LogicalRanks> exact_;
    std::optional<AuditMemory> audit_;  // none without audits
    const std::vector<EarlierGraph> earlier_;
    std::vector<Stage> stages_;
    std::unique_ptr<Supply> supply_;  // null: devices read batches from the split
    std::unique_ptr<Evaluator> evaluator_;
    size_t arena_bytes_ = 0;      // bytes of one lane's arena
    std::vector<Buffer> arenas_;  // [arenas()]
    Buffer counters_, order_, learning_rates_, decays_;
    std::optional<RecordRing> records_;
};

}  // namespace convoy
