// Steps of `convoy train` that its --dry-run takes too, so that both refuse the same.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cli/run_folder.h"
#include "cli/train_options.h"
#include "train/trainer.h"

namespace convoy {

/// What is going to be trained, known from options, manifests and headers.
struct Description {
    std::unique_ptr<SplitReader> train, test;
    TrainSetup setup;
    ModelOptions model;
    Graph graph;
};
/// Collective. Reads no image. Throws Exit::usage for options without effect on the device or the model, too.
Description describe_training(Comm&, const Backend&, const ParsedOptions&, std::optional<Clock::time_point> deadline);

/// Where a run writes, and what it goes on from.
struct Output {
    std::string folder;
    bool from_file = false;  ///< --resume names a checkpoint
    bool goes_on = false;    ///< the run that is in the folder is continued, metrics and all
};
/// Collective. Throws Exit::io if the folder cannot be written or has no room for what the training will leave there.
Output check_output(Comm&, const TrainOptions&, const Trainer&);

/// Collective. Builds the programs. Throws Exit::out_of_memory if they, or the copies for checkpoints, do not fit.
void build_programs(Comm&, Backend&, const TrainOptions&, Trainer&);

/// Rank 0 only. What cannot be saved when a TERM is sent to mpirun in a long step, because of the size of a checkpoint on this
/// disk; empty if it can.
std::string note_on_signals(const std::string& run_dir, const State&, int ranks);

/// What a resumed run must share with the one before.
Identity identity_of(const TrainOptions&, const SplitInfo&, const TrainSetup&);

/// The checkpoint to go on from, if there is one; rank 0 only. Throws Exit::bad_input, or Exit::usage if it is of another run or
/// beyond the end of this one.
std::optional<ResumePoint> find_resume_point(const TrainOptions&, const Output&, const Trainer&, const Identity&);

}  // namespace convoy
