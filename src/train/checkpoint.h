// RUN/checkpoints/step-<n>.h5: everything a training needs to go on as if nothing had happened.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "train/model_file.h"
#include "train/run_files.h"

namespace convoy {

/// (name, value) of what a resumed run must share with the one before: model, data set, optimizer,
/// global batch, ….
using Identity = std::vector<std::pair<std::string, std::string>>;

struct Checkpoint {
    ModelFile model;
    Identity identity;
    std::string configuration;    ///< as config_text() has the options
    int64_t step = 0;             ///< optimizer steps done
    int64_t epoch = 0;            ///< of the next step, from 0
    int64_t offset = 0;           ///< samples of that epoch already seen by all ranks together
    bool evaluation_due = false;  ///< the epoch before is not evaluated yet
    double best_accuracy = -1, last_accuracy = -1;
    int64_t best_step = 0;
    double rate_factor = 1;  ///< what rollbacks multiplied the learning rate with
    int64_t ranks = 1;
    // Host copies of the arenas of State.
    std::vector<float> weights, optimizer;
    std::vector<float> running;        ///< [ranks][running statistics]
    std::vector<float> backend;        ///< Backend::kept_state(); another kind of backend ignores it
    std::string choices;               ///< Backend::choices()
    std::vector<int32_t> exponents{};  ///< LogicalRanks::exponents(); none without logical ranks
    std::vector<std::string> kinds{};  ///< Backend::kind() of all ranks, each once, in order; none in older files

    bool only_model = false;  ///< not for a file: the state of the best model, if that is all that is kept

    /// Whether no evaluation was better than the one of these weights.
    bool is_best() const { return best_accuracy >= 0 && best_step == step && !evaluation_due; }
};

/// Fails with Exit::usage, naming the first difference, if a run of `identity` cannot go on from
/// `checkpoint`.
void check_identity(const std::string& path, const Identity& checkpoint, const Identity& run);

/// Writes one file, durably. `state` gives names and places of the tensors. Throws Exit::io.
void write_checkpoint(const HeldPlace&, const Checkpoint&, const State& state);
/// Estimates the seconds that a checkpoint of `bytes` takes in this folder. Measures: writes at
/// most 32 MiB in a temporary folder, and removes it. Throws Exit::io if HDF5 files cannot be
/// made, synced and renamed there.
double estimated_seconds(const HeldFolder&, size_t bytes);
/// Whether a file of this name was left by a killed estimated_seconds().
bool is_trial(const std::string& name);
/// Removes what a trial checkpoint left in the folder `name`, and that if nothing else is in it.
void remove_trial(const HeldFolder& above, const std::string& name);
/// Writes the model of a checkpoint, with the running statistics of its rank 0 (equal on all ranks
/// after an evaluation). Throws Exit::io.
void save_model(const HeldPlace&, const Checkpoint&, const State& state);
/// Reads what write_checkpoint wrote, checking every checksum; tensors must be those of `state`.
/// Throws Exit::bad_input; Inaccessible (base/file_error.h) if it could not be opened or read.
Checkpoint read_checkpoint(const std::string& path, const State& state, const Identity& run);
/// Checkpoint::identity alone. Throws Exit::bad_input.
Identity read_identity(const std::string& path);
/// Checkpoint::configuration alone. Throws Exit::bad_input.
std::string read_configuration(const std::string& path);
/// Checkpoint::choices alone, before there is a state. Throws Exit::bad_input.
std::string read_choices(const std::string& path);

/// "step-000000001200.h5"
std::string checkpoint_name(int64_t step);
/// "RUN/checkpoints/step-000000001200.h5"
std::string checkpoint_path(const std::string& run_dir, int64_t step);
/// Whether checkpoint_path() makes such names: copies that users make have others.
bool is_checkpoint_name(const std::string& name);
constexpr const char* best_model_name = "model-best.h5";
/// "RUN/model-best.h5"
std::string best_model_path(const std::string& run_dir);
/// Checkpoint files of a run, newest first. Throws Inaccessible if their folder cannot be listed.
std::vector<std::string> checkpoints_of(const std::string& run_dir);
/// Names of the checkpoint files in a folder, newest first. Throws Inaccessible.
std::vector<std::string> checkpoints_in(const HeldFolder&);

/// The step in a name or path of a checkpoint.
int64_t step_of_checkpoint(const std::string& path);
/// Renames the checkpoints taken after `step` to "….h5.old": a run that goes on from there will
/// write its own. Returns the new names. Throws Exit::io.
std::vector<std::string> set_aside_after(const RunFiles&, int64_t step);
/// Removes old ones: the newest `keep`, that of `newest` and that of the best step stay.
void prune_checkpoints(const RunFiles&, int64_t keep, const Checkpoint& newest);
/// Removes all checkpoints of a run that needs none any longer, as far as that is possible.
void remove_checkpoints(const RunFiles&);

}  // namespace convoy
