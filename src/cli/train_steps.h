// Parts of `convoy train` that --dry-run runs too, so that both refuse the same options.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cli/console.h"
#include "cli/terminal.h"
#include "cli/time_limit.h"
#include "cli/train_options.h"
#include "run/run_folder.h"
#include "train/trainer.h"

namespace convoy {

/// Returns the files and folders that options name.
std::vector<std::string> paths_of(const ParsedOptions&);
/// Prints which data set, checkpoint and other files a recipe names, because it may come from
/// another person.
void print_paths_of_recipe(Terminal&, const ParsedOptions&);

/// Collective. Throws Exit::usage if ranks run different versions of Convoy or of its libraries.
void check_same_program(Comm&);
/// Collective. Throws Exit::usage if ranks run different versions of Convoy.
void check_same_convoy(Comm&);

/// Does what check_same_program() does. Then throws Exit::usage if ranks have different options:
/// each reads the recipe, and another file may take its place meanwhile. The path of the data set,
/// the devices and the number of threads may differ, because hosts may differ.
void check_same_command(Comm&, const ParsedOptions&);

/// Facts about a training that options, manifests and headers determine.
struct Description {
    std::unique_ptr<SplitReader> train, test;
    TrainSetup setup;
    ModelOptions model;
    Graph graph;
    std::vector<EarlierGraph> earlier;
    Placed placed;  ///< of both splits together
    SetupNotes notes;
    InitialWeights initial;  ///< values on rank 0 only; none if the run continues from a checkpoint

    void close_files() {
        train.reset();
        test.reset();
    }
};
/// Collective. Resolves the options without reading an image. Replaces automatic rates by numbers.
/// Throws Exit::usage, also for options without effect on the device or the model.
Description describe_training(Comm&, const Backend&, ParsedOptions&, std::optional<Clock::time_point> deadline);

/// Returns an upper bound for the bytes in the run folder: the checkpoints that are kept, one that
/// is being written, three files of the model, and the metrics.
size_t expected_bytes(const TrainOptions&, const TrainingPrograms&, int64_t ranks);

/// Returns the run folder, and the checkpoint that the run resumes from. Prepares the programs with
/// that checkpoint's tuning. Collective. Throws Exit::io if the folder cannot be written or has too
/// little room for the files of the training. Throws Exit::bad_input if that checkpoint cannot be
/// opened.
RunPlace prepare_in_place(Comm&, Backend&, const TrainOptions&, TrainingPrograms&);

/// Collective. For a run without --output, makes a folder with an unused name.
void make_default_folder(Comm&, const TrainOptions&, RunPlace&);

/// Prints the deadline that the environment sets, or a warning why it is ignored.
void print_limit(Terminal&, const TimeLimit&);

/// Collective. Builds the programs. Throws Exit::out_of_memory if they, or the copies for
/// checkpoints, do not fit.
void build_programs(Comm&, Backend&, const TrainOptions&, TrainingPrograms&);

/// Rank 0 only. Returns a warning if this disk is too slow to save a checkpoint in the seconds
/// between mpirun's TERM and its KILL. Empty if it is fast enough.
std::string note_on_signals(const RunFiles&, const State&, int64_t ranks);

/// Returns the facts that a resumed run must share with the run before.
Identity identity_of(const TrainOptions&, const SplitInfo&, const TrainSetup&, const Placed&);

}  // namespace convoy
