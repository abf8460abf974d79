// Makes or reuses the run folder, locks it against a second run, and finds the checkpoint to resume
// from.
#pragma once
#include <optional>
#include <string>

#include "train/checkpoint.h"

namespace convoy {

/// Returns a path such as "output/resnet18-20260131-120000".
std::string default_run_folder(const std::string& model);
/// Makes the folder `path`, or the first of `path`-2, `path`-3, … that does not exist. Returns its
/// path. If several runs ask for the same name at once, each gets a different folder. Throws
/// Exit::io.
std::string make_run_folder(const std::string& path);

/// Locks the folder for this process; a second run that wants it is refused. The lock is released
/// at exit, also after kill -9.
class RunFolder {
public:
    /// Makes the folder and locks it. Throws Exit::io if it cannot be made. Throws Exit::usage if
    /// another run has locked it, or if its earlier run is neither resumed nor overwritten.
    RunFolder(const std::string& path, bool resume, bool overwrite);
    RunFolder(const RunFolder&) = delete;

    const RunFiles& files() const { return files_; }

private:
    const RunFiles files_;
    Descriptor lock_{-1};
};

/// Throws what making files in `path` would throw, but leaves nothing behind. `option`: the option
/// that names `path`.
void check_folder(const std::string& path, const std::string& option);
/// Throws Exit::io if HDF5 files cannot be made, synced, renamed and opened where the run in `path`
/// writes. Leaves no file behind.
void check_can_write(const std::string& path);
/// For a dry run: throws what RunFolder's constructor would throw, but changes nothing.
void check_run_folder(const std::string& path, bool resume, bool overwrite);

/// Returns true if `file` lies in `folder` or below it.
bool is_within(const std::string& file, const std::string& folder);

struct ResumePoint {
    Checkpoint checkpoint;
    std::string path;
};
/// Returns the newest intact checkpoint of a run; nothing if it has no checkpoints. Skips damaged
/// ones with a warning on stderr. Throws Exit::bad_input if all are damaged, or if a checkpoint
/// newer than all intact ones cannot be opened. Throws Exit::usage if the checkpoints have another
/// identity.
std::optional<ResumePoint> newest_checkpoint(const RunFiles&, const State&, const Identity&);

/// The folder that a run writes to, and the point that it resumes from.
struct RunPlace {
    std::string folder;
    std::string checkpoint;  ///< the file to resume from; empty if none is named
    bool continues = false;  ///< the run in the folder is continued, with its metrics
    bool overwrite = false;  ///< a run in the folder is replaced
};
/// Returns the checkpoint to resume from: the named one, or the newest of a run that is continued.
/// Throws Exit::bad_input. Throws Exit::usage if it has another identity, or lies beyond the end of
/// this run.
std::optional<ResumePoint> find_resume_point(const RunPlace&, const RunFiles&, const State&, const Identity&,
                                             int64_t total_steps);

/// Throws Exit::bad_input if the metrics of a run that is resumed cannot be read.
void check_metrics(const RunPlace&);

/// Returns the identity in the checkpoint from which the run will probably resume; empty if there
/// is none. Does not read the whole checkpoint. Throws Exit::bad_input if it cannot be opened.
Identity identity_to_resume(const RunPlace&);
/// Returns the options that the same checkpoint recorded; empty if there is none. Throws
/// Exit::bad_input if it cannot be opened.
std::string configuration_to_resume(const RunPlace&);
/// Returns the OpTuning::tuning() of the same checkpoint; empty if there is none. Throws
/// Exit::bad_input if it cannot be opened.
std::string tuning_to_resume(const RunPlace&);

/// Makes RUN/model-best.h5 the model of the best evaluation up to `resume`. Replaces an existing
/// file in two cases: it may come from a later evaluation (`branched`), or `resume` is the best
/// evaluation. The model comes from the best evaluation's checkpoint. If that is gone, the existing
/// file is renamed to .old. Returns a note for the user, or "".
std::string renew_best_model(const RunFiles&, const ResumePoint& resume, bool branched, const State&, const Identity&);

/// Throws Exit::io if `folder` (or its nearest existing parent) cannot be written, or has less than
/// `bytes` free.
void check_room(const std::string& folder, size_t bytes, const std::string& what_for);

}  // namespace convoy
