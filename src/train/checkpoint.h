// RUN/checkpoints/step-<n>.h5: everything that an interrupted training needs to continue exactly as
// an uninterrupted one would.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "train/model_file.h"
#include "train/run_files.h"

namespace convoy {

/// (name, value) pairs that a resumed run must share with the run before: model, data set,
/// optimizer, global batch, ….
using Identity = std::vector<std::pair<std::string, std::string>>;

/// The position of a training, and its best evaluation.
struct TrainingProgress {
    int64_t step = 0;             ///< optimizer steps done
    bool evaluation_due = false;  ///< the epoch that has ended is not evaluated yet
    double best_accuracy = -1, last_accuracy = -1;
    int64_t best_step = 0;
    double rate_factor = 1;  ///< factor of the learning rate, lowered by rollbacks
};

struct Checkpoint : TrainingProgress {
    ModelFile model;
    Identity identity;
    std::string configuration;  ///< options, as config_text() writes them
    int64_t epoch = 0;          ///< epoch of the next step, from 0
    int64_t offset = 0;         ///< samples of that epoch already seen by all ranks together
    int64_t ranks = 1;
    // Host copies of State's arenas.
    std::vector<float> weights, optimizer;
    std::vector<float> running;        ///< [ranks][running statistics]
    std::vector<float> backend;        ///< TensorMemory::kept_state(); another kind of backend ignores it
    std::string tuning;                ///< OpTuning::tuning()
    std::vector<int32_t> exponents{};  ///< LogicalRanks::exponents(); empty without logical ranks
    std::vector<std::string> kinds{};  ///< distinct DeviceFacts::kind of all ranks, sorted; empty in older files

    /// RunWriter writes model-best.h5 from this, and no checkpoint. Files do not store this flag
    bool only_model = false;

    /// True if no evaluation was better than that of these weights.
    bool is_best() const { return best_accuracy >= 0 && best_step == step && !evaluation_due; }
};

/// Throws Exit::usage, naming the first difference, if the identities differ: then the run cannot
/// resume from the checkpoint at `path`.
void check_identity(const std::string& path, const Identity& checkpoint, const Identity& run);

/// Writes one file durably. `state` has the names and offsets of the tensors. Throws Exit::io.
void write_checkpoint(const HeldPlace&, const Checkpoint&, const State& state);
/// Estimates the seconds for writing a checkpoint of `bytes` in this folder. For that it writes at
/// most 32 MiB in a temporary folder, which it removes. Throws Exit::io if HDF5 files cannot be
/// made, synced and renamed there.
double estimated_seconds(const HeldFolder&, size_t bytes);
/// True if `name` is that of a folder left by a killed estimated_seconds().
bool is_trial(const std::string& name);
/// Removes a trial checkpoint from the folder `name`, and the folder if it is then empty.
void remove_trial(const HeldFolder& above, const std::string& name);
/// Writes the model of a checkpoint, with the running statistics of rank 0; they are equal on all
/// ranks after an evaluation. Throws Exit::io.
void save_model(const HeldPlace&, const Checkpoint&, const State& state);
/// Reads a checkpoint and compares its checksums. Its tensors must be those of `state`. Throws
/// Exit::bad_input, or Inaccessible (base/file_error.h) if it could not be opened or read.
Checkpoint read_checkpoint(const std::string& path, const State& state, const Identity& run);
/// Reads only Checkpoint::identity. Throws Exit::bad_input.
Identity read_identity(const std::string& path);
/// Reads only Checkpoint::configuration. Throws Exit::bad_input.
std::string read_configuration(const std::string& path);
/// Reads only Checkpoint::tuning; needs no state. Throws Exit::bad_input.
std::string read_tuning(const std::string& path);

/// Returns a name such as "step-000000001200.h5".
std::string checkpoint_name(int64_t step);
/// Returns a path such as "RUN/checkpoints/step-000000001200.h5".
std::string checkpoint_path(const std::string& run_dir, int64_t step);
/// True for names that checkpoint_name() makes. Copies that users make have other names.
bool is_checkpoint_name(const std::string& name);
constexpr const char* best_model_name = "model-best.h5";
/// Returns "RUN/model-best.h5".
std::string best_model_path(const std::string& run_dir);
/// Returns the paths of a run's checkpoints, newest first. Throws Inaccessible if their folder
/// cannot be listed.
std::vector<std::string> checkpoints_of(const std::string& run_dir);
/// Returns the names of the checkpoints in a folder, newest first. Throws Inaccessible.
std::vector<std::string> checkpoints_in(const HeldFolder&);

/// Returns the step in a name or path of a checkpoint.
int64_t step_of_checkpoint(const std::string& path);
/// Renames the checkpoints taken after `step` to "….h5.old", because a run that resumes from `step`
/// writes new ones. Returns the new paths. Throws Exit::io.
std::vector<std::string> set_aside_after(const RunFiles&, int64_t step);
/// Removes old checkpoints. Keeps the newest `keep` checkpoints, `newest`, and the checkpoint of
/// the best step.
void prune_checkpoints(const RunFiles&, int64_t keep, const Checkpoint& newest);
/// Removes all checkpoints of a finished run. Ignores failures.
void remove_checkpoints(const RunFiles&);

}  // namespace convoy
