// Prints what a training is going to do, how it goes, and how it ended, on rank 0's terminal.
#pragma once
#include <string>

#include "cli/terminal.h"
#include "train/recorder.h"

namespace convoy {

class Console final : public RunObserver {
public:
    /// Both must outlive this.
    Console(const Trainer&, Terminal&);

    /// The plan, in some ten lines.
    void print_plan(const ConfigPairs&, const std::string& data_dir, const DataSet& train, const DataSet* test,
                    const Graph&, const TrainSetup&, int ranks);
    /// The run ended by itself, or was stopped, and left everything in `folder`.
    void print_end(const std::string& folder, const std::string& stopped_by);
    /// The job is about to be ended in the middle of a step; any thread.
    void print_termination(int64_t checkpoint, const std::string& folder);
    /// Takes the status line away: an error follows.
    void clear() { terminal_.clear(); }

    void note(const std::string& about, const std::string& message) override;
    void warning(const std::string& message) override { terminal_.warning(message); }
    void on_start(const std::vector<RankRow>&, int64_t done) override;
    void on_step(int64_t epoch, const StepRecord&) override;
    void on_epoch(const EpochSummary&) override;
    void on_eval(int64_t epoch, const EvalResult&, bool best) override;

private:
    void print_options(const ConfigPairs&);
    void print_data(const std::string& folder, const DataSet& train, const DataSet* test);
    /// "epoch 3/10"
    std::string epoch_text(int64_t epoch) const;

    const Trainer& trainer_;
    Terminal& terminal_;
    const int64_t total_steps_, steps_per_epoch_;
    int64_t first_step_ = 0;
    Clock::time_point started_ = Clock::now(), training_started_ = started_;
};

}  // namespace convoy
