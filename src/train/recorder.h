// What a training leaves in its run folder: metrics, checkpoints and models, and what to do if one
// cannot be written. It prints nothing itself: RunObserver is told.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/redaction.h"
#include "train/configuration.h"
#include "train/metrics.h"
#include "train/run_folder.h"
#include "train/run_writer.h"
#include "train/system_sampler.h"
#include "train/trainer.h"

namespace convoy {

/// What every command that writes metrics says of itself and its run, as attributes of /run.
struct RunAttributes {
    std::string command_line;
    ConfigPairs configuration;
    int64_t ranks = 1;
    std::string device_kind;  ///< "cpu" or "gpu"
    Identity identity;
    Versions versions;
    Facts environment;  ///< of rank 0's host and device
};
void add_attributes(Metrics&, const RunAttributes&);
/// Who computes which logical ranks: "logical ranks 0-3 on ranks 0-1 (a), 4 on rank 2 (b)", a part
/// for each stretch of ranks of one host.
std::string dealing_text(const std::vector<RankRow>&);
/// A row of /train.
TrainRow row_of(int64_t epoch, const StepRecord&);

/// A training in its folder.
struct RunDescription {
    RunPlace place;
    ModelFile model;
    RunAttributes attributes;
    int64_t metrics_every = 1;         ///< steps between two rows of /train
    int64_t keep = 1;                  ///< as prune_checkpoints; 0: none once the run is done
    double publish_every = 5;          ///< seconds between two versions of metrics.h5
    bool strict_io = false;            ///< what cannot be written ends the run; else a warning
    bool logical = false;              ///< the ranks compute logical ranks (--virtual-ranks)
    bool no_environment = false;       ///< nothing says where the run ran
    std::vector<std::string> paths{};  ///< that its texts may name
    SystemSampler::Pace pace{};        ///< of /system
};

/// What people are told of a training, by its training thread. Notes and warnings are those of
/// rank 0; every rank hears the rest.
class RunObserver {
public:
    virtual ~RunObserver() = default;
    /// Something worth a line, with a word for what it is about: "metrics".
    virtual void note(const std::string& about, const std::string& message) = 0;
    virtual void warning(const std::string& message) = 0;
    /// The first step is about to begin, after `done` others.
    virtual void on_start(const std::vector<RankRow>&, int64_t done) = 0;
    /// New records since the last call, in order. `epoch` from 1.
    virtual void on_steps(int64_t epoch, const std::vector<StepRecord>&) = 0;
    /// `ranks`: the epoch's rows of all ranks, in order.
    virtual void on_epoch(const EpochSummary&, const std::vector<RankEpochRow>& ranks) = 0;
    virtual void on_eval(int64_t epoch, const EvalResult&, bool best) = 0;
};

class Recorder final : public TrainListener {
public:
    /// All but the description must outlive this.
    Recorder(Comm&, Backend&, const State&, RunObserver&, RunDescription);

    // Rank 0 only, in this order:
    /// Makes or takes over the folder, and gives the checkpoint to go on from, if there is one.
    /// Renames checkpoints of later steps. Throws Exit::io, Exit::usage, Exit::bad_input.
    std::optional<Checkpoint> open_folder(int64_t total_steps);
    /// The folder that was opened.
    const RunFiles& files() const { return folder_->files(); }
    /// Starts the metrics, or goes on with those in the folder. Throws Exit::io.
    void open_metrics(const Trainer&);
    /// Collective. Records who takes part, and starts to watch the devices.
    void start(int64_t step);
    /// Rank 0 only. Writes the model, and what ended the run. `stopped_by` is said if the trainer
    /// was stopped. Throws Exit::io if what the run was for is not on disk.
    void finish(const Trainer&, const std::string& stopped_by);
    /// Into the metrics, if there are any yet: why the run ends.
    void record_failure(int64_t step, const std::string& message);

    // Rank 0 only, from any thread: for LastResort.
    /// Writes the checkpoint and waits for it; false if it could not be written.
    bool save_held(Checkpoint&&);
    /// Waits until no checkpoint is being written: steps done by the newest; -1: none is on disk.
    int64_t saved_step();
    void record_termination(int64_t step, const std::string& message);

    void on_steps(int64_t epoch, const std::vector<StepRecord>&) override;
    void on_epoch(const EpochSummary&) override;
    void before_checkpoint() override;
    void on_checkpoint(Checkpoint&&) override;
    void on_eval(int64_t epoch, int64_t step, const EvalResult&, bool best) override;
    std::optional<Checkpoint> on_rollback(int64_t failed) override;

private:
    const std::string& folder() const { return run_.place.folder; }
    /// From now on nothing of this run says where it runs, as it was asked to be, or began.
    /// `before`: the options of an earlier start.
    void leave_environment_out(const std::string& before);
    /// What a checkpoint of this run has besides the trainer's state.
    void complete(Checkpoint&) const;
    void note_best(double accuracy, int64_t step);
    /// Tells and records what was written since, or could not be. Throws Exit::io if strict_io.
    void note_written();
    /// Warns, once for each, of folders whose paths lead elsewhere now.
    void note_moved(int64_t step);
    void note_metrics(const std::string& failure);
    void finish_checkpoints();
    void finish_stopped(int64_t step, const std::string& why);
    /// Rank 0 only: `kinds` of all ranks. Warns where equal bits cannot be promised any longer.
    void note_kinds(int64_t step, std::vector<std::string> kinds);
    void record_steps(int64_t epoch, const std::vector<StepRecord>&);
    std::vector<RankEpochRow> gather_rank_epochs(const EpochSummary&);
    /// Collective: what the ranks' samplers have.
    void gather_system_rows();
    void warn(int64_t step, const std::string& message);
    /// Runs what writes to the run folder. If it fails: a warning, unless strict_io.
    void guarded(const std::function<void()>& write);

    Comm& comm_;
    Backend& backend_;
    const State& state_;
    RunObserver& observer_;
    RunDescription run_;
    Redaction redaction_;  // empty, but for --no-environment
    int64_t total_steps_ = 0, steps_per_epoch_ = 1;
    std::string resumed_from_, configuration_before_;  // the checkpoint's path and options, or empty
    std::vector<std::string> kinds_before_, kinds_;    // of the checkpoint; of this start
    std::unique_ptr<RunFolder> folder_;                // its lock outlives the threads that write there
    std::unique_ptr<Metrics> metrics_;
    std::unique_ptr<RunWriter> writer_;
    std::optional<SystemSampler> sampler_;  // while training
    int64_t saved_step_ = -1;               // newest checkpoint of this run that is on disk
};

}  // namespace convoy
