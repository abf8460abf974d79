// The training loop. Programs are built once. An epoch uploads its permutation, and then only
// replays programs.
#pragma once
#include <atomic>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "plan/schedule.h"
#include "plan/split.h"
#include "train/checkpoint.h"
#include "train/evaluator.h"
#include "train/held_state.h"
#include "train/logical_ranks.h"

namespace convoy {

/// The reaction to a step whose loss or gradients are not finite. Its update is always skipped.
enum class OnNan { stop, skip, rollback };

struct TrainSetup {
    OptimizerSpec optimizer;
    Schedule schedule;
    double weight_decay = 0;
    bool decay_weights_only = false;
    /// weight_decay is the share that a step removes at the base rate, independent of the
    /// parameter's rate
    bool decoupled_decay = false;
    double norm_shift_rate = 1;               ///< factor of the rate for batch norms' shifts
    double filter_rate = 1, linear_rate = 1;  ///< factors of the rate for convolution and linear weights
    /// Muon trains convolution weights, without decay; `optimizer` trains the rest
    bool muon = false;
    double whitening_bias_epochs = 0;  ///< epochs in which a whitening convolution's bias is trained; 0: all
    int64_t look_ahead = 0;            ///< steps between two look-ahead averages; 0: none
    double look_ahead_decay = 0.95;    ///< as in look_ahead_decays()
    Tta tta = Tta::plain;
    Augment augment;
    Preprocessing preprocessing;
    double epochs = 1;  ///< may end with a part of an epoch, in whole steps
    int64_t global_batch = 0, max_steps = 0, eval_every = 1, log_interval = 10;
    int64_t metrics_every = 0;  ///< steps between two rows of /train; 0: steps_between_rows() decides
    bool drop_last = false, sync_bn = false;
    int64_t logical_ranks = 0;  ///< train as this many ranks would, bit for bit; 0: the number of ranks
    size_t bucket_bytes = 0;    ///< least size of a gradient bucket; 0: Backend::bucket_bytes()
    uint64_t seed = 1;
    OnNan on_nan = OnNan::stop;
    // Intervals of checkpoints; 0: none. Checkpoints are also taken on request, and before a stop.
    int64_t checkpoint_steps = 0, checkpoint_epochs = 0;
    double checkpoint_seconds = 0;
    bool checkpoint_at_end = true;              ///< also at the end, and after the best evaluation
    std::optional<Clock::time_point> deadline;  ///< checkpoint and stop before this

    Dealing dealing(int ranks) const { return {logical_ranks > 0 ? logical_ranks : ranks, ranks}; }
};

/// Returns the function that gives the rule of each parameter.
ParamRules param_rules(const TrainSetup&, int64_t steps_per_epoch);

/// Sums over images, measured when they were trained on. A smaller batch therefore counts for less.
struct Tally {
    int64_t images = 0;
    double loss_sum = 0, correct = 0, top5 = 0;

    Tally& operator+=(const Tally&);
    // Averages; NaN if images == 0. Accuracies are fractions.
    double loss() const { return loss_sum / double(images); }
    double accuracy() const { return correct / double(images); }
    double top5_accuracy() const { return top5 / double(images); }
};
/// Return the tally of a step over the images of all ranks, or over those of this rank.
Tally tally_of_all(const StepRecord&);
Tally tally_of_own(const StepRecord&);

/// An epoch of training, or the part of it since the run was resumed within it.
struct EpochSummary {
    int64_t epoch = 0;  ///< from 1
    int64_t steps = 0;
    double seconds = 0;  ///< wall time, evaluation not included
    Tally all{}, own{};  ///< over all ranks, over this rank
    /// sums over the steps of this rank
    double step_seconds = 0, data_seconds = 0, comm_exposed_seconds = 0;

    void add(const StepRecord&);
    double images_per_second() const { return double(all.images) / seconds; }
};

/// Receives the reports of a training. Every function is called on all ranks at the same point, so
/// it may be collective.
class TrainListener {
public:
    virtual ~TrainListener() = default;
    /// Receives the new records since the last call, in order, every log interval and every two
    /// seconds. `epoch` counts from 1.
    virtual void on_steps(int64_t epoch, const std::vector<StepRecord>&) = 0;
    /// True if on_steps() must get the record of `step` as soon as that step has run. The device
    /// then waits. Otherwise records may come late.
    virtual bool at_once(int64_t /*step*/) const { return false; }
    virtual void on_epoch(const EpochSummary&) = 0;
    virtual void on_eval(int64_t epoch, int64_t step, const EvalResult&, bool best) = 0;
    /// Called before memory is allocated for the copy of a checkpoint that is due.
    virtual void before_checkpoint() {}
    /// Receives a copy of the whole state, which is complete on rank 0 only.
    virtual void on_checkpoint(Checkpoint&&) = 0;
    /// Returns the newest checkpoint on rank 0, to roll back to after step `failed`; nothing if
    /// there is none, and on other ranks. Steps after that checkpoint will be reported again.
    virtual std::optional<Checkpoint> on_rollback(int64_t failed) = 0;
};

/// The time of one tape step, run separately.
struct StepTime {
    StepId step;
    double seconds;
};

/// A graph with the same parameters for images of another size, with which a training begins.
struct EarlierGraph {
    Graph graph;
    int64_t until;  ///< epoch in which the next graph takes over, from 0
};

class Trainer {
public:
    /// Allocates parameters, gradients and optimizer state. `test` may be null. A signal handler or
    /// a clock may set `requests` at any time; it must outlive the trainer. `earlier`: graphs that
    /// are trained before `graph`, in the order of their epochs; evaluations always use `graph`.
    /// Graphs that begin after the last epoch are not built.
    Trainer(Comm&, Backend&, const Graph&, const DataSet& train, const DataSet* test, const TrainSetup&,
            Requests& requests, std::vector<EarlierGraph> earlier = {});

    int64_t steps_per_epoch() const { return epoch_plan_.steps(); }
    int64_t total_steps() const { return total_steps_; }
    const std::vector<EarlierGraph>& earlier() const { return earlier_; }
    int64_t tail() const { return epoch_plan_.tail; }
    const std::vector<Bucket>& buckets() const { return buckets_; }
    const State& state() const { return state_; }
    int64_t logical_ranks() const { return dealing_.logical; }  ///< without --virtual-ranks, the number of ranks

    /// Collective. Selects how the programs run, and plans their memory. Call it first.
    void plan();
    /// Returns the number of lanes: logical ranks that this rank computes at the same time, each
    /// with a separate arena.
    int lanes() const { return exact_ ? exact_->lanes() : 1; }
    /// Returns the bytes of all lanes' arenas; call after plan().
    size_t arena_bytes() const { return arena_bytes_ * size_t(lanes()); }
    /// Returns how the ops of a full batch run; call after plan().
    const Ways& ways() const { return *measured().plans.front().ways; }
    /// Allocates activations and builds the tapes. Throws Exit::out_of_memory.
    void build();
    /// Draws the initial weights on rank 0 and broadcasts them.
    void initialise();
    /// Collective. Restores the state of `from`, which must not lie beyond total_steps(). Uses only
    /// rank 0's copy.
    void restore(Checkpoint from);
    /// Trains to the end, or until a rank asks to stop. Throws Exit::not_finite on every rank.
    void run(TrainListener&);
    // These may be called on rank 0, from any thread, also while run() runs:
    /// Returns the step of the newest state that this run can resume from. Nothing if no state is
    /// held, because steps are short.
    std::optional<int64_t> held_step() const { return held_.step(); }
    /// Returns that state; nothing if it is not newer than step `newer_than`.
    std::optional<Checkpoint> held(int64_t newer_than) const { return held_.copy(newer_than); }
    /// Collective. Times each tape step separately, and returns this rank's medians over `steps`
    /// optimizer steps, in the order of the tape. Call after run(). Resets the trainer to step 0,
    /// but the weights keep changing.
    std::vector<StepTime> profile(int64_t steps);
    /// Traces `steps` optimizer steps that overlap as in training. Returns this rank's trace of the
    /// step whose time is the median on rank 0. Seconds count from a moment that all ranks share.
    /// Otherwise like profile().
    std::vector<Span> timeline(int64_t steps);
    bool stopped() const { return stopped_; }  ///< also from any thread
    int64_t step() const { return step_; }
    bool evaluation_due() const { return evaluation_due_; }

    double best_accuracy() const { return best_accuracy_; }
    double last_accuracy() const { return last_accuracy_; }
    int64_t best_step() const { return best_step_; }

private:
    /// A program that runs as a whole, or op by op to find the origin of a NaN.
    struct Runnable {
        int64_t samples;                 ///< samples of all ranks
        std::vector<ProgramPlan> plans;  ///< one for this rank, or one for each of its logical ranks
        std::function<void()> run;
        Tape tape;                   ///< without `ending`
        std::vector<Program> parts;  ///< [plans] the programs in `tape`
        Tape ending;                 ///< optimizer and record
    };

    /// The steps in which images have one size and the same parameters are trained.
    struct Stage {
        std::unique_ptr<const Graph> graph;  // parameters that are no longer trained are frozen in it
        bool resized;                        // its images have another size than those of graph_
        int64_t until;                       // first step of the next stage, from 0
        std::vector<Runnable> programs;  // of a full batch, then of an epoch's smaller last one; each only if it occurs
    };

    struct EpochRun;
    struct Asked;

    Counters* counters() const { return static_cast<Counters*>(counters_.get()); }  ///< on the device
    void plan_stages();
    void build(Runnable&, const Stage&, const Update&);
    Program part_of(const Runnable&, const Stage&, size_t index);
    Augment augment_for(const Stage&) const;
    std::function<void()> apart(const Runnable&);
    std::function<void()> until_it_fits(std::function<void()> gradients);
    const Stage& stage_of(int64_t step) const;       ///< steps count from 0
    const Runnable& program_of(int64_t step) const;  ///< steps count from 0
    /// Returns the program that plans and profiles describe: a full batch of the last stage.
    const Runnable& measured() const { return stages_.back().programs.front(); }
    Lines lines_shown(int64_t epoch, int32_t sample, int height, int width) const;
    /// Collective. Provides the batch of the step that is launched next.
    void supply_batch();
    // trainer_rules.cpp: schedules on the device, and whitening filters computed from the data.
    void upload_rates();
    void set_whitening_filters(const Param&, const Tensor& to);
    void upload_counters(int64_t epoch);
    // trainer_loop.cpp
    void run_epoch(int64_t epoch, TrainListener&);
    int64_t look_interval() const;
    /// True if the host reads records one interval late, so that the device never waits for it.
    bool looks_late() const { return !exact_ && !backend_.synchronous() && !holding_; }
    std::vector<StepRecord> look(EpochRun&, bool all);
    std::vector<StepRecord> read(EpochRun&, bool all);
    bool checkpoint_step() const;
    Asked take_in(const std::vector<StepRecord>&, EpochRun&);
    bool report_due(const EpochRun&, const Asked&, bool last, bool hold) const;
    /// Evaluates after `epoch` if an evaluation is due, and takes the checkpoint that is due then.
    void end_epoch(int64_t epoch, TrainListener&);
    void evaluate(int64_t epoch, TrainListener&);
    /// Sets the requests for checkpoints and stops that are due by rank 0's clocks. `margin`:
    /// seconds until all ranks know of a stop and have stopped.
    void watch_clocks(double margin);
    /// Requests that the state be held, if requests are read so rarely that a signal cannot wait.
    /// `seconds`: time between two reads.
    void watch_length(double seconds);
    /// Collective. Returns the position of the run without weights; on rank 0 also the running
    /// statistics of all ranks.
    Checkpoint position();
    /// Collective. Holds the current state for held().
    void hold();
    void take_checkpoint(TrainListener&);
    /// Passes a checkpoint to the listener only for the model of the best evaluation.
    void hand_over_best(TrainListener&);
    /// Collective. Returns the running statistics of all logical ranks, in order, on rank 0.
    std::vector<float> running_statistics();
    /// Returns the mean over rows of [n][count] values, added in the order of rows.
    static std::vector<float> mean_of(const std::vector<float>& rows, size_t count);
    void restore_running(Checkpoint&);
    void restore_exponents(Checkpoint&);
    void restore_kept_state(Checkpoint&);
    void restore_position(const Checkpoint&);
    /// Returns the records of steps (from, to] from the ring buffer.
    std::vector<StepRecord> drain(int64_t from, int64_t to);
    /// Applies setup_.on_nan if some of these steps were skipped. True if the run was rolled back.
    bool handle_skipped(const std::vector<StepRecord>&, TrainListener&);
    bool roll_back(int64_t failed, TrainListener&);
    /// Throws Exit::not_finite, naming the first value on any rank that is not finite.
    [[noreturn]] void stop_not_finite(const StepRecord&);
    std::string first_not_finite(int64_t step);
    void average_running_statistics();

    Comm& comm_;
    Backend& backend_;
    const Graph& graph_;
    const DataSet& train_;
    const DataSet* const test_;
    TrainSetup setup_;
    const Dealing dealing_;
    const Share logical_;  // logical ranks of this rank
    EpochPlan epoch_plan_;
    int64_t total_steps_ = 0, step_ = 0;
    State state_;
    std::unique_ptr<Supply> supply_;  // null: devices read batches from the split
    std::unique_ptr<Evaluator> evaluator_;
    std::vector<Bucket> buckets_;
    std::unique_ptr<LogicalRanks> exact_;  // null: gradients are summed as floats, without logical ranks
    const std::vector<EarlierGraph> earlier_;
    std::vector<Stage> stages_;
    size_t arena_bytes_ = 0;      // bytes of one lane's arena
    std::vector<Buffer> arenas_;  // [lanes]
    Buffer counters_, order_, learning_rates_, decays_, ring_;
    int64_t ring_size_ = 0;
    Requests& requests_;
    HeldState held_;
    bool holding_ = true;  // the state is held before each step; equal on all ranks
    Clock::time_point checkpointed_ = Clock::now(), held_at_ = checkpointed_;
    std::atomic<bool> stopped_{false};
    bool evaluation_due_ = false;
    double best_accuracy_ = -1, last_accuracy_ = -1;
    int64_t best_step_ = 0;
    int64_t saved_step_ = -1;     // step of the newest checkpoint
    bool saved_due_ = false;      // its evaluation was still due
    int64_t averaged_step_ = -1;  // step after which the running statistics were averaged over ranks
    double rate_factor_ = 1;      // lowered by rollbacks
    int64_t skipped_in_a_row_ = 0;
};

}  // namespace convoy
