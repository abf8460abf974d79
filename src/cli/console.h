// Prints what a training is going to do, how it goes, and how it ended: on rank 0's terminal, and
// in every rank's log.
#pragma once
#include <string>

#include "cli/progress_lines.h"
#include "cli/terminal.h"
#include "run/recorder.h"

namespace convoy {

/// Texts for print_setup(), about rate, stem, initial weights and frozen parameters. Empty: none.
struct SetupNotes {
    std::string rate{}, stem{}, weights{}, trained{};
};

class Console final : public RunObserver {
public:
    /// The trainer and the terminal must outlive this object. Without progress lines it only prints
    /// the setup.
    Console(const Trainer&, Terminal&, std::unique_ptr<ProgressLines> = nullptr);

    /// Prints what the training will do, in about ten lines.
    void print_setup(const ConfigPairs&, const std::string& data_dir, const DataSet& train, const DataSet* test,
                     const Graph&, const TrainSetup&, int ranks, const SetupNotes& = {});
    /// Ends the progress lines. Call it after the last step.
    void end_progress() { lines_->on_end(); }
    /// Reports that the run ended by itself or was stopped, and that its results are in `folder`.
    /// `again` is the command that continues it.
    void print_end(const std::string& folder, const std::string& stopped_by, const std::string& again);
    /// Reports that a signal is about to end the job in the middle of a step. Any thread may call
    /// it.
    void print_termination(const std::string& signal, int64_t checkpoint, const std::string& folder,
                           const std::string& again);
    /// Removes the status line, because an error follows.
    void clear() { terminal_.clear(); }

    void note(const std::string& about, const std::string& message) override;
    void warning(const std::string& message) override { terminal_.warning(message); }
    void on_start(const std::vector<RankRow>&, int64_t done) override;
    void on_steps(int64_t epoch, const std::vector<StepRecord>& records) override { lines_->on_steps(epoch, records); }
    void on_epoch(const EpochSummary& e, const std::vector<RankEpochRow>& ranks) override {
        lines_->on_epoch(e, ranks);
    }
    void on_eval(int64_t epoch, const EvalResult& e, bool best) override { lines_->on_eval(epoch, e, best); }

private:
    void print_options(const ConfigPairs&);
    /// Warns of options whose effect is probably not what the user meant.
    void warn_of_effects(const TrainSetup&, int64_t images);
    void print_data(const std::string& folder, const DataSet& train, const DataSet* test);

    const Trainer& trainer_;
    Terminal& terminal_;
    const std::unique_ptr<ProgressLines> lines_;
    const Clock::time_point started_ = Clock::now();
};

}  // namespace convoy
