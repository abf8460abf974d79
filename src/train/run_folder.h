// The run folder: made or reused, locked against a second run, and searched for the checkpoint to
// go on from.
#pragma once
#include <optional>
#include <string>

#include "train/checkpoint.h"

namespace convoy {

/// "output/resnet18-20260131-120000"
std::string default_run_folder(const std::string& model);
/// Makes the folder `path` or, where it is there already, the first of `path`-2, `path`-3, … that
/// is not. Any number of runs may ask for the same name at once: each gets a folder. Returns its
/// path. Throws Exit::io.
std::string make_run_folder(const std::string& path);

/// Holds the folder for this process; a second run that asks for it is refused. Released at exit,
/// also after kill -9.
class RunFolder {
public:
    /// Makes the folder and locks it. Throws Exit::io if it cannot be made. Throws Exit::usage if
    /// another run has it, or if its earlier run is neither resumed nor overwritten.
    RunFolder(const std::string& path, bool resume, bool overwrite);
    RunFolder(const RunFolder&) = delete;

    const RunFiles& files() const { return files_; }

private:
    const RunFiles files_;
    Descriptor lock_{-1};
};

/// Fails as making files in `path` would, which `option` names, and makes none.
void check_folder(const std::string& path, const std::string& option);
/// Fails with Exit::io if HDF5 files cannot be made, synced, renamed and opened where the run in
/// `path` writes. Leaves no file behind.
void check_can_write(const std::string& path);
/// Fails as RunFolder would, and leaves the folder as it is: for a dry run.
void check_run_folder(const std::string& path, bool resume, bool overwrite);

/// Whether `file` lies in `folder` or below it.
bool is_within(const std::string& file, const std::string& folder);

struct ResumePoint {
    Checkpoint checkpoint;
    std::string path;
};
/// The newest sound checkpoint of a run, if it has any; damaged ones are skipped with a warning on
/// stderr. Throws Exit::bad_input if all are damaged, or one that is newer than all sound ones
/// cannot be opened; Exit::usage if they are of another run than `identity`.
std::optional<ResumePoint> newest_checkpoint(const RunFiles&, const State&, const Identity&);

/// Where a run writes, and what it goes on from.
struct RunPlace {
    std::string folder;
    std::string checkpoint;  ///< the file to go on from, if one is named
    bool goes_on = false;    ///< the run in the folder is continued, metrics and all
    bool overwrite = false;  ///< a run in the folder is replaced
};
/// The checkpoint to go on from: the one that is named or, if the run in the folder goes on, its
/// newest. Throws Exit::bad_input, or Exit::usage if it is of another run or beyond the end of this
/// one.
std::optional<ResumePoint> find_resume_point(const RunPlace&, const RunFiles&, const State&, const Identity&,
                                             int64_t total_steps);

/// Throws Exit::bad_input if the metrics of a run that is resumed cannot be read.
void check_metrics(const RunPlace&);

/// The checkpoint that a run is likely to go on from, before it is read as a whole: its identity;
/// empty if there is none. Throws Exit::bad_input if it cannot be opened.
Identity identity_to_go_on_with(const RunPlace&);
/// Backend::choices() of the checkpoint that a run is likely to go on from, before it is read as a
/// whole; empty if there is none. Throws Exit::bad_input if it cannot be opened.
std::string choices_to_go_on_with(const RunPlace&);

/// Makes RUN/model-best.h5 the model of the best evaluation that a run knows which goes on from
/// `resume`, if its checkpoint is still there. `branched`: the file may be of evaluations after
/// that point, and is renamed to .old if its checkpoint is gone. Returns what people should know.
std::string renew_best_model(const RunFiles&, const ResumePoint& resume, bool branched, const State&, const Identity&);

/// Fails with Exit::io if `folder` (or the nearest folder above it that exists) cannot be written
/// or has less than `bytes` free.
void check_room(const std::string& folder, size_t bytes, const std::string& what_for);

}  // namespace convoy
