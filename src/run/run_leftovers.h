// Removes files of ended runs, and warns about owners and modes of run folders. Only names that
// Convoy makes are ever removed, because the folder may hold a user's own files.
#pragma once
#include <string>

#include "train/run_files.h"

namespace convoy {

/// Removes unfinished files of a killed run, and the reports of its watchdog.
void remove_leftovers(const RunFiles&);
/// Returns true if the folder holds a file that a run would replace or append to.
bool has_files_of_run(const HeldFolder& run);
/// Returns true if the run in a folder may have done a step, or if the files may be a user's.
/// Returns false if it ended before its first step.
bool has_steps(const RunFiles&);
/// Removes the run that --overwrite replaces. Throws Exit::io.
void remove_run(const RunFiles&);

/// Returns a warning if the folder is another user's, or if every user may write there; else "".
/// The warning advises to choose another folder for `option`.
std::string warning_of_owner(const HeldFolder& run, const std::string& option = "--output");
/// Returns a warning if the folder's parent is another user's, or if every user may replace the
/// folder; else "". Assumes that a group's write permission is intended.
std::string warning_of_parent(const HeldFolder& run);

}  // namespace convoy
