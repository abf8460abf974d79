// Writes a training's metrics, checkpoints and models to its run folder, and handles failures to
// write. It prints nothing, but calls a RunObserver.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/redaction.h"
#include "run/configuration.h"
#include "run/metrics.h"
#include "run/run_folder.h"
#include "run/run_writer.h"
#include "run/system_sampler.h"
#include "train/trainer.h"

namespace convoy {

/// The attributes of /run, which every command that writes metrics sets.
struct RunAttributes {
    std::string command_line;
    ConfigPairs configuration;
    int64_t ranks = 1;
    std::string device_kind;  ///< "cpu" or "gpu"
    Identity identity;
    Versions versions;
    Facts environment;  ///< facts about rank 0's host and device
};
void add_attributes(Metrics&, const RunAttributes&);
/// Returns which ranks compute which logical ranks: "logical ranks 0-3 on ranks 0-1 (a), 4 on rank
/// 2 (b)", with a part for consecutive ranks of one host.
std::string batch_split_text(const std::vector<RankRow>&);
/// Returns the row of /train for a record.
TrainRow row_of(int64_t epoch, const StepRecord&);

/// The settings of a Recorder.
struct RunDescription {
    RunPlace place;
    ModelFile model;
    RunAttributes attributes;
    int64_t metrics_every = 1;         ///< steps between two rows of /train
    int64_t keep = 1;                  ///< as in prune_checkpoints(); 0: none after the run has finished
    double publish_every = 5;          ///< seconds between two versions of metrics.h5
    bool strict_io = false;            ///< a failure to write ends the run; else it is a warning
    bool logical = false;              ///< the ranks compute logical ranks (--virtual-ranks)
    bool no_environment = false;       ///< omit host names, paths and the like from all files
    std::vector<std::string> paths{};  ///< paths that no_environment redacts in recorded texts
    SystemSampler::Pace pace{};        ///< how often /system is sampled
};

/// Receives what is shown to people, on the training thread. note() and warning() are called on
/// rank 0 only, the other functions on every rank.
class RunObserver {
public:
    virtual ~RunObserver() = default;
    /// Receives a line. `about`: a word for its subject, for example "metrics".
    virtual void note(const std::string& about, const std::string& message) = 0;
    virtual void warning(const std::string& message) = 0;
    /// Called before this start's first step. `done`: steps done before.
    virtual void on_start(const std::vector<RankRow>&, int64_t done) = 0;
    /// Receives the new records since the last call, in order. `epoch` counts from 1.
    virtual void on_steps(int64_t epoch, const std::vector<StepRecord>&) = 0;
    /// Called after an epoch. `ranks`: the epoch's rows of /rank_epochs, in order of rank.
    virtual void on_epoch(const EpochSummary&, const std::vector<RankEpochRow>& ranks) = 0;
    virtual void on_eval(int64_t epoch, const EvalResult&, bool best) = 0;
};

class Recorder final : public TrainListener {
public:
    /// All arguments but the description must outlive this.
    Recorder(Comm&, Backend&, const State&, RunObserver&, RunDescription);

    // Rank 0 only, except start() and record_failure(). Call them in this order:
    /// Makes or reuses the folder. Returns the checkpoint to resume from, if there is one. Renames
    /// checkpoints of later steps. Throws Exit::io, Exit::usage, Exit::bad_input.
    std::optional<Checkpoint> open_folder(int64_t total_steps);
    /// Returns the opened folder.
    const RunFiles& files() const { return folder_->files(); }
    /// Starts the metrics, or continues those in the folder. Throws Exit::io.
    void open_metrics(const Trainer&);
    /// Collective. Records the ranks, and starts sampling the devices.
    void start(int64_t step);
    /// Writes the model and the event that ends the run. `stopped_by`: the reason if the trainer
    /// was stopped. Throws Exit::io if the result of the run is not on disk.
    void finish(const Trainer&, const std::string& stopped_by);
    /// Records in the metrics, if they were opened, why the run ends. Other ranks do nothing.
    void record_failure(int64_t step, const std::string& message);

    // Rank 0 only, from any thread: for LastResort.
    /// Writes the checkpoint and waits for it. False if it could not be written.
    bool save_snapshot(Checkpoint&&);
    /// Waits until no checkpoint is being written. Returns the newest one's step; -1: none.
    int64_t saved_step();
    void record_termination(int64_t step, const std::string& message);

    void on_steps(int64_t epoch, const std::vector<StepRecord>&) override;
    void on_epoch(const EpochSummary&) override;
    void on_audit(const AuditReport&) override;
    void before_checkpoint() override;
    void on_checkpoint(Checkpoint&&) override;
    void on_eval(int64_t epoch, int64_t step, const EvalResult&, bool best) override;
    std::optional<Checkpoint> on_rollback(int64_t failed) override;

private:
    const std::string& folder() const { return run_.place.folder; }
    /// Redacts the environment from now on, if --no-environment is given or is in `before`, the
    /// options of an earlier start.
    void leave_environment_out(const std::string& before);
    /// Adds to a checkpoint what the trainer does not know: model, identity, configuration.
    void complete(Checkpoint&) const;
    void note_best(double accuracy, int64_t step);
    /// Reports and records the checkpoints written since the last call, and failures. Throws
    /// Exit::io for a failure if strict_io.
    void note_written();
    /// Warns once of each folder whose path now leads to another folder.
    void note_moved(int64_t step);
    void note_metrics(const std::string& failure);
    void finish_checkpoints();
    void finish_stopped(int64_t step, const std::string& why);
    /// Rank 0 only. Warns if equal bits can no longer be guaranteed. `kinds`: DeviceFacts::kind of
    /// all ranks.
    void note_kinds(int64_t step, std::vector<std::string> kinds);
    void record_steps(int64_t epoch, const std::vector<StepRecord>&);
    std::vector<RankEpochRow> gather_rank_epochs(const EpochSummary&);
    /// Collective. Adds the rows of all ranks' samplers to /system.
    void gather_system_rows();
    void warn(int64_t step, const std::string& message);
    /// Calls `write`, which writes to the run folder. A failure is a warning, unless strict_io.
    void guarded(const std::function<void()>& write);

    Comm& comm_;
    Backend& backend_;
    const State& state_;
    RunObserver& observer_;
    RunDescription run_;
    Redaction redaction_;  // empty without --no-environment
    int64_t total_steps_ = 0, steps_per_epoch_ = 1;
    std::string resumed_from_, configuration_before_;  // path and options of the checkpoint that was resumed; or empty
    std::vector<std::string> kinds_before_, kinds_;    // kinds in the checkpoint; kinds of this start
    std::unique_ptr<RunFolder> folder_;                // first, so that its lock outlives the writing threads
    std::unique_ptr<Metrics> metrics_;
    std::unique_ptr<RunWriter> writer_;
    std::optional<SystemSampler> sampler_;  // set while training
    int64_t saved_step_ = -1;               // newest checkpoint of this run that is on disk
    int64_t audits_ = 0, differing_ = 0;    // audits of this start, and those in which ranks disagreed
};

}  // namespace convoy
