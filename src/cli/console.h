// What a training tells people: the plan before it, progress during it, a summary after it, on rank 0's terminal and in the
// run folder's metric files.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/terminal.h"
#include "train/metrics.h"
#include "train/run_writer.h"
#include "train/system_sampler.h"
#include "train/trainer.h"

namespace convoy {

using ConfigPairs = std::vector<std::pair<std::string, std::string>>;

/// "key = value" lines, readable by --config.
std::string config_text(const ConfigPairs&);

struct RunDescription {
    std::string dir, resumed_from;  ///< resumed_from: a checkpoint file, or empty
    bool resume = false;            ///< an earlier run's metrics may be there and are continued
    int64_t keep = 1;
    double publish_every = 5;       ///< seconds between two versions of metrics.h5
    bool strict_io = false;         ///< a checkpoint or metrics that cannot be written end the run; else a warning
    std::vector<std::string> args;
    ConfigPairs config;
    Identity identity;
    ModelFile model;
};

class Console final : public TrainListener {
public:
    Console(Comm&, Backend&, const State&, Terminal&);

    void print_plan(const ConfigPairs&, const std::string& data_dir, const DataSet& train, const DataSet* test, const Graph&,
                    const TrainSetup&, const Trainer&);
    /// Rank 0 only. Starts metrics and checkpoints of the run, or goes on with those that are there. `configuration_before` is
    /// that of the checkpoint. Throws Exit::io.
    void open_run(const RunDescription&, const Trainer&, const std::string& configuration_before);
    /// Collective: the table of ranks, printed and recorded.
    void describe_ranks();
    // Rank 0 only, from any thread: for LastResort.
    bool save_held(Checkpoint&&);
    int64_t saved_step();
    void say_ended(int64_t step);
    /// Rank 0 only. Throws Exit::io if what the run was for is not on disk.
    void finish(const Trainer&);
    /// Into the metrics, if there are any yet: why the run ends.
    void record_failure(int64_t step, const std::string& message);

    void on_steps(int64_t epoch, const std::vector<StepRecord>&) override;
    void on_epoch(const EpochSummary&) override;
    void before_checkpoint() override;
    void on_checkpoint(Checkpoint&&) override;
    void on_eval(int64_t epoch, int64_t step, const EvalResult&, bool best) override;
    std::optional<Checkpoint> on_rollback(int64_t failed) override;

private:
    /// What a checkpoint of this run has besides the trainer's state.
    void complete(Checkpoint&) const;
    void progress(int64_t epoch, const StepRecord&);
    void note_best(double accuracy, int64_t step);
    /// What was written since, or could not be: said, and recorded. Throws Exit::io with --strict-io.
    void note_written();
    void note_metrics(const std::string& failure);
    void finish_checkpoints();
    /// Collective: what the ranks' samplers have.
    void gather_system_rows();
    void warn(int64_t step, const std::string& message);
    /// Runs what writes to the run folder: a failure is a warning, unless --strict-io.
    void guarded(const std::function<void()>& write);

    Comm& comm_;
    Backend& backend_;
    const State& state_;
    Terminal& terminal_;
    RunDescription run_;
    std::unique_ptr<Metrics> metrics_;
    std::unique_ptr<RunWriter> writer_;
    std::optional<SystemSampler> sampler_;  // while training
    int64_t saved_step_ = -1;  // newest checkpoint of this run that is on disk
    int64_t first_step_ = 0, total_steps_ = 0, steps_per_epoch_ = 0, epochs_ = 0;
    int64_t metrics_every_ = 1;  // steps between two rows of /train
    Clock::time_point started_ = Clock::now(), training_started_ = started_;
};

}  // namespace convoy
