// The training loop: epochs, steps, evaluations and checkpoints. An epoch uploads its permutation,
// and then only replays programs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/epoch_summary.h"
#include "train/run_clock.h"
#include "train/training_programs.h"

namespace convoy {

/// The result of an audited step.
struct AuditReport {
    int64_t step;              ///< steps done, including this one
    std::string difference{};  ///< who computed wrong, and what to do; empty: all ranks agree
    bool ends = false;         ///< the run ends with this difference as its message
};

/// Receives the reports of a training. Every function is called on all ranks at the same point, so
/// it may be collective.
class TrainListener {
public:
    virtual ~TrainListener() = default;
    /// Receives the new records since the last call, in order, every log interval and every two
    /// seconds. `epoch` counts from 1.
    virtual void on_steps(int64_t epoch, const std::vector<StepRecord>&) = 0;
    /// True if the record of `step` must be read before the next step begins. Otherwise it may be
    /// read late, so that the device never waits. on_steps() gets it at the next log interval.
    virtual bool at_once(int64_t /*step*/) const { return false; }
    virtual void on_epoch(const EpochSummary&) = 0;
    virtual void on_eval(int64_t epoch, int64_t step, const EvalResult&, bool best) = 0;
    virtual void on_audit(const AuditReport&) {}
    /// Called before memory is allocated for the copy of a checkpoint that is due.
    virtual void before_checkpoint() {}
    /// Receives a copy of the whole state, which is complete on rank 0 only.
    virtual void on_checkpoint(Checkpoint&&) = 0;
    /// Returns the newest checkpoint on rank 0, if there is one; else nothing. After step `failed`,
    /// the run rolls back to this checkpoint, and reports the steps after the checkpoint again.
    virtual std::optional<Checkpoint> on_rollback(int64_t failed) = 0;
};

class Trainer {
public:
    /// Allocates parameters, gradients and optimizer state. `test` may be null. A signal handler or
    /// a clock may set `requests` at any time; they must outlive the trainer. `earlier`: graphs
    /// that are trained before `graph`, in the order of their epochs. Evaluations always use
    /// `graph`. Graphs that begin after the last epoch are not built.
    Trainer(Comm&, Backend&, const Graph&, const DataSet& train, const DataSet* test, const TrainSetup&,
            Requests& requests, std::vector<EarlierGraph> earlier = {});

    /// Returns the programs. Call their prepare() and build() before the functions below.
    TrainingPrograms& programs() { return programs_; }
    const TrainingPrograms& programs() const { return programs_; }
    /// Collective. Restores the state of `from`, which must not lie beyond the last step. Uses only
    /// rank 0's copy.
    void restore(Checkpoint from);
    /// Trains to the end, or until a rank asks to stop. Throws Exit::not_finite and
    /// Exit::not_accepted on every rank.
    void run(TrainListener&);
    const TrainingProgress& progress() const { return now_; }
    // Any thread may call these, also while run() runs. Only rank 0 has snapshots.
    bool stopped() const { return clock_.stopped(); }
    /// Returns the step of the newest snapshot that this run can resume from. Returns nothing if
    /// steps are so short that no snapshot is made.
    std::optional<int64_t> snapshot_step() const { return snapshot_.step(); }
    /// Returns that snapshot; nothing if it is not newer than step `newer_than`.
    std::optional<Checkpoint> snapshot(int64_t newer_than) const { return snapshot_.copy(newer_than); }

private:
    struct EpochRun;

    /// Runs the rest of the epoch, unless a rank asks to stop or the run is rolled back.
    void run_epoch(TrainListener&);
    /// Evaluates if an evaluation is due, and takes the checkpoint that is due then.
    void end_epoch(TrainListener&);
    void evaluate(int64_t epoch, TrainListener&);
    void average_running_statistics();
    /// Collective. Returns the position of the run without weights; on rank 0 also the running
    /// statistics of all ranks.
    Checkpoint position();
    /// Collective. Makes a snapshot of the current state.
    void take_snapshot();
    void take_checkpoint(TrainListener&);
    /// Passes a checkpoint to the listener; `only_model`: for the model of the best evaluation.
    void hand_over(bool only_model, TrainListener&);
    /// Applies setup_.on_nan if some of these steps were skipped. True if the run was rolled back.
    bool handle_skipped(const std::vector<StepRecord>&, TrainListener&);
    bool roll_back(int64_t failed, TrainListener&);
    /// Collective. Passes a verdict to the listener. Throws Exit::not_accepted if it ends the run.
    void report_audit(const AuditVerdict&, TrainListener&);
    /// Throws Exit::not_finite, naming the first value on any rank that is not finite.
    [[noreturn]] void stop_not_finite(const StepRecord&);

    Comm& comm_;
    Backend& backend_;
    const TrainSetup setup_;
    TrainingPrograms programs_;
    RunClock clock_;
    StateSnapshot snapshot_;
    TrainingProgress now_;
    int64_t averaged_step_ = -1;  // step after which the running statistics were averaged over ranks
    int64_t skipped_in_a_row_ = 0;
    int64_t sound_step_ = 0;  // steps that count as right: those before the last clean audit, or before this start
};

}  // namespace convoy
