// The run folder: made or reused, locked against a second run, and searched for the checkpoint to go on from.
#pragma once
#include <optional>
#include <string>

#include "train/checkpoint.h"

namespace convoy {

/// "output/resnet18-20260131-120000"
std::string default_run_folder(const std::string& model);

/// Holds the folder for this process; a second run that asks for it is refused. Released at exit, also after kill -9.
class RunFolder {
public:
    /// Makes the folder and locks it. Throws Exit::io if it cannot be made, Exit::usage if another run has it, or if it holds
    /// an earlier run that is neither resumed nor to be overwritten.
    RunFolder(const std::string& path, bool resume, bool overwrite);
    ~RunFolder();
    RunFolder(const RunFolder&) = delete;

private:
    int lock_ = -1;
};

/// Fails as RunFolder would, and leaves nothing behind: for a dry run.
void check_run_folder(const std::string& path, bool resume, bool overwrite);

/// Whether `file` lies in `folder` or below it.
bool is_within(const std::string& file, const std::string& folder);

struct ResumePoint {
    Checkpoint checkpoint;
    std::string path;
};
/// The newest sound checkpoint of a run, if it has any; damaged ones are skipped with a warning on stderr. Throws
/// Exit::bad_input if all are damaged, Exit::usage if they are of another run than `identity`.
std::optional<ResumePoint> newest_checkpoint(const std::string& run_dir, const State&, const Identity&);

/// Makes RUN/model-best.h5 the model of the best evaluation that a run knows which goes on from `resume`, if its checkpoint is still
/// there. `branched`: the file may be of evaluations after that point, and goes if it cannot be made anew. Returns what failed.
std::string renew_best_model(const std::string& run_dir, const ResumePoint& resume, bool branched, const State&, const Identity&);

}  // namespace convoy
