// The training loop. Programs are built once; an epoch uploads its permutation and then only
// replays.
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

/// What to do about a step whose loss or gradients are not finite. Its update is left out in any
/// case.
enum class OnNan { stop, skip, rollback };

struct TrainSetup {
    OptimizerSpec optimizer;
    Schedule schedule;
    double weight_decay = 0;
    bool decay_weights_only = false;
    /// weight_decay is what a step takes at the base rate, whatever the parameter's own rate is
    bool decoupled_decay = false;
    double norm_shift_rate = 1;               ///< of batch norms' shifts, times the rate
    double filter_rate = 1, linear_rate = 1;  ///< of convolution and linear weights, times the rate
    /// convolution weights by Muon, which does not decay them; the rest by `optimizer`
    bool muon = false;
    double whitening_bias_epochs = 0;  ///< a whitening convolution's bias is trained for so long; 0: throughout
    int64_t look_ahead = 0;            ///< steps between two look-ahead averages; 0: none
    double look_ahead_decay = 0.95;    ///< as in look_ahead_decays
    Tta tta = Tta::plain;
    Augment augment;
    Preprocessing preprocessing;
    double epochs = 1;  ///< the last one may be a part, in whole steps
    int64_t global_batch = 0, max_steps = 0, eval_every = 1, log_interval = 10;
    int64_t metrics_every = 0;  ///< steps between two rows of /train; 0: as steps_between_rows()
    bool drop_last = false, sync_bn = false;
    int64_t logical_ranks = 0;  ///< train as so many ranks would, the same bits on any number; 0: as there are
    size_t bucket_bytes = 0;    ///< least size of a gradient bucket; 0: Backend::bucket_bytes()
    uint64_t seed = 1;
    OnNan on_nan = OnNan::stop;
    // When to take a checkpoint; 0: not by this clock. Also when asked, and before a stop.
    int64_t checkpoint_steps = 0, checkpoint_epochs = 0;
    double checkpoint_seconds = 0;
    bool checkpoint_at_end = true;              ///< also at the end, and after the best evaluation
    std::optional<Clock::time_point> deadline;  ///< checkpoint and stop before this

    Dealing dealing(int ranks) const { return {logical_ranks > 0 ? logical_ranks : ranks, ranks}; }
};

/// What a recipe says of each parameter.
ParamRules param_rules(const TrainSetup&, int64_t steps_per_epoch);

/// Sums over images as they were trained on, so that a smaller batch counts for less.
struct Tally {
    int64_t images = 0;
    double loss_sum = 0, correct = 0, top5 = 0;

    Tally& operator+=(const Tally&);
    // Means; NaN of no images.
    double loss() const { return loss_sum / double(images); }
    double accuracy() const { return correct / double(images); }  ///< as a fraction, as the next
    double top5_accuracy() const { return top5 / double(images); }
};
/// Of a step: over the images of all ranks, or of this rank alone.
Tally tally_of_all(const StepRecord&);
Tally tally_of_own(const StepRecord&);

/// An epoch of training, or the part of it since the run was resumed within it.
struct EpochSummary {
    int64_t epoch = 0;  ///< from 1
    int64_t steps = 0;
    double seconds = 0;  ///< wall time, evaluation not included
    Tally all{}, own{};  ///< of all ranks, of this one
    /// Sums over the steps of this rank, in seconds.
    double step_seconds = 0, data_seconds = 0, comm_exposed_seconds = 0;

    void add(const StepRecord&);
    double images_per_second() const { return double(all.images) / seconds; }
};

/// What a training reports. Every function is called on all ranks at the same point, so that it may
/// be collective.
class TrainListener {
public:
    virtual ~TrainListener() = default;
    /// New records since the last call, in order: every log interval, and every two seconds.
    /// `epoch` from 1.
    virtual void on_steps(int64_t epoch, const std::vector<StepRecord>&) = 0;
    /// Whether on_steps() is to have the records up to `step` as soon as it has run: the device
    /// waits then. Else it may have them late.
    virtual bool at_once(int64_t /*step*/) const { return false; }
    virtual void on_epoch(const EpochSummary&) = 0;
    virtual void on_eval(int64_t epoch, int64_t step, const EvalResult&, bool best) = 0;
    /// A checkpoint is due: its copy is going to take memory.
    virtual void before_checkpoint() {}
    /// A copy of the whole state; complete on rank 0 only.
    virtual void on_checkpoint(Checkpoint&&) = 0;
    /// The newest checkpoint, to go back to after step `failed`; on rank 0 only, and only if there
    /// is one. What was reported since then will be reported again.
    virtual std::optional<Checkpoint> on_rollback(int64_t failed) = 0;
};

/// One step of a training tape, run by itself.
struct StepTime {
    StepId step;
    double seconds;
};

/// A model for images of another size, with the same parameters, that a training begins with.
struct EarlierGraph {
    Graph graph;
    int64_t until;  ///< epoch, from 0, of the next one
};

class Trainer {
public:
    /// Allocates parameters, gradients and optimizer state. `test` may be null. `requests` may be
    /// set at any time, by a signal handler or a clock, and must outlive the trainer. `earlier`, in
    /// the order of their epochs, come before `graph`, which is evaluated throughout. What begins
    /// after the last epoch is not built.
    Trainer(Comm&, Backend&, const Graph&, const DataSet& train, const DataSet* test, const TrainSetup&,
            Requests& requests, std::vector<EarlierGraph> earlier = {});

    int64_t steps_per_epoch() const { return epoch_plan_.steps(); }
    int64_t total_steps() const { return total_steps_; }
    const std::vector<EarlierGraph>& earlier() const { return earlier_; }
    int64_t tail() const { return epoch_plan_.tail; }
    const std::vector<Bucket>& buckets() const { return buckets_; }
    const State& state() const { return state_; }
    int64_t logical_ranks() const { return dealing_.logical; }  ///< the ranks, or as many as they stand for

    /// Collective, first of all: chooses how the programs run and where their memory lies.
    void plan();
    /// Logical ranks that this rank computes side by side, each with an arena of its own; 1: one
    /// rank.
    int lanes() const { return exact_ ? exact_->lanes() : 1; }
    /// Once it is planned: of all lanes.
    size_t arena_bytes() const { return arena_bytes_ * size_t(lanes()); }
    /// Once it is planned: how a step of a full batch runs.
    const Ways& ways() const { return *measured().plans.front().ways; }
    /// Allocates activations and builds the tapes. Throws Exit::out_of_memory.
    void build();
    /// Draws the initial weights on rank 0 and broadcasts them.
    void initialise();
    /// Goes on where `from` stands, which is not beyond total_steps(); collective. Only rank 0's
    /// copy is used.
    void restore(Checkpoint from);
    /// Trains to the end, or until a rank asks to stop. Throws Exit::not_finite on every rank
    /// alike.
    void run(TrainListener&);
    // On rank 0, from any thread, whatever run() is doing:
    /// Steps done by the newest state that this run can go on from; nothing if none is held: steps
    /// are short.
    std::optional<int64_t> held_step() const { return held_.step(); }
    /// That state; nothing if it is not of a step after `newer_than`.
    std::optional<Checkpoint> held(int64_t newer_than) const { return held_.copy(newer_than); }
    /// Collective. Times a step operation by operation, each ended before the next begins: medians
    /// of `steps` steps on this rank, in the order of the tape. For after run(): the trainer stands
    /// at step 0 then, weights go on.
    std::vector<StepTime> profile(int64_t steps);
    /// Traces `steps` steps that overlap as those of a training do. Gives this rank's view of the
    /// one that is median on rank 0. Seconds are from a moment that all ranks share. Otherwise as
    /// profile().
    std::vector<Span> timeline(int64_t steps);
    bool stopped() const { return stopped_; }  ///< also from any thread
    int64_t step() const { return step_; }
    bool evaluation_due() const { return evaluation_due_; }

    double best_accuracy() const { return best_accuracy_; }
    double last_accuracy() const { return last_accuracy_; }
    int64_t best_step() const { return best_step_; }

private:
    /// A program that can be run as a whole, or op by op to find where a NaN came from.
    struct Runnable {
        int64_t samples;                 ///< of all ranks
        std::vector<ProgramPlan> plans;  ///< of this rank, or of each of its logical ranks
        std::function<void()> run;
        Tape tape;                   ///< without what follows
        std::vector<Program> parts;  ///< of the tape, one for each plan
        Tape ending;                 ///< optimizer and record
    };

    /// Steps whose images have one size, and which train the same parameters.
    struct Stage {
        std::unique_ptr<const Graph> graph;  // what is not trained any more is frozen there
        bool resized;                        // its images are not those of graph_
        int64_t until;                       // step, from 0
        std::vector<Runnable> programs;  // of a full batch, then of the last one of an epoch, as far as there are such
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
    const Stage& stage_of(int64_t step) const;  ///< from 0, as the next
    const Runnable& program_of(int64_t step) const;
    /// What is measured by itself: a step of a full batch, of the last stage.
    const Runnable& measured() const { return stages_.back().programs.front(); }
    Lines lines_shown(int64_t epoch, int32_t sample, int height, int width) const;
    /// Collective: the batch of the step that is launched next is where its program reads it.
    void supply_batch();
    // trainer_rules.cpp: the schedules on the device, and whitening filters from the data.
    void upload_rates();
    void set_whitening_filters(const Param&, const Tensor& to);
    void upload_counters(int64_t epoch);
    // trainer_loop.cpp
    void run_epoch(int64_t epoch, TrainListener&);
    int64_t look_interval() const;
    /// Whether the host reads records an interval late, so that the device never waits for it.
    bool looks_late() const { return !exact_ && !backend_.synchronous() && !holding_; }
    std::vector<StepRecord> look(EpochRun&, bool all);
    std::vector<StepRecord> read(EpochRun&, bool all);
    bool checkpoint_step() const;
    Asked take_in(const std::vector<StepRecord>&, EpochRun&);
    bool report_due(const EpochRun&, const Asked&, bool last, bool hold) const;
    /// Evaluates after `epoch` if its turn has come, and takes the checkpoint that is due then.
    void end_epoch(int64_t epoch, TrainListener&);
    void evaluate(int64_t epoch, TrainListener&);
    /// What rank 0's clocks ask for. `margin`: seconds until all ranks know and have stopped.
    void watch_clocks(double margin);
    /// Asks for the state to be held, if what goes on between two looks at the requests takes so
    /// long that a signal cannot wait.
    void watch_length(double seconds);
    /// Collective: where the run stands, on rank 0 with the running statistics of all ranks;
    /// without weights.
    Checkpoint position();
    /// Collective: see held().
    void hold();
    void take_checkpoint(TrainListener&);
    /// Does what take_checkpoint() does, but only for the model of the best evaluation.
    void hand_over_best(TrainListener&);
    /// Collective: those of all logical ranks in order, on rank 0.
    std::vector<float> running_statistics();
    /// Of [n][count] values, in the order of rows.
    static std::vector<float> mean_of(const std::vector<float>& rows, size_t count);
    void restore_running(Checkpoint&);
    void restore_exponents(Checkpoint&);
    void restore_kept_state(Checkpoint&);
    void restore_position(const Checkpoint&);
    /// The ring rows of steps (from, to].
    std::vector<StepRecord> drain(int64_t from, int64_t to);
    /// Does what setup_.on_nan says about records of which some were skipped. Returns whether step_
    /// went back.
    bool handle_skipped(const std::vector<StepRecord>&, TrainListener&);
    bool roll_back(int64_t failed, TrainListener&);
    /// Throws Exit::not_finite with the first value that is not, on any rank.
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
    const Share logical_;  // of this rank
    EpochPlan epoch_plan_;
    int64_t total_steps_ = 0, step_ = 0;
    State state_;
    std::unique_ptr<Supply> supply_;  // null: devices read batches from the split
    std::unique_ptr<Evaluator> evaluator_;
    std::vector<Bucket> buckets_;
    std::unique_ptr<LogicalRanks> exact_;  // null: gradients are summed as floats
    const std::vector<EarlierGraph> earlier_;
    std::vector<Stage> stages_;
    size_t arena_bytes_ = 0;      // of a lane
    std::vector<Buffer> arenas_;  // by lane
    Buffer counters_, order_, learning_rates_, decays_, ring_;
    int64_t ring_size_ = 0;
    Requests& requests_;
    HeldState held_;
    bool holding_ = true;  // on all ranks alike: before each step
    Clock::time_point checkpointed_ = Clock::now(), held_at_ = checkpointed_;
    std::atomic<bool> stopped_{false};
    bool evaluation_due_ = false;
    double best_accuracy_ = -1, last_accuracy_ = -1;
    int64_t best_step_ = 0;
    int64_t saved_step_ = -1;  // of the newest checkpoint, and whether its evaluation was still due
    bool saved_due_ = false;
    int64_t averaged_step_ = -1;  // when the running statistics were made equal
    double rate_factor_ = 1;      // lowered by rollbacks
    int64_t skipped_in_a_row_ = 0;
};

}  // namespace convoy
