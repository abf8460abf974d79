// Removes files of ended runs, and tells the owner of a run folder. Only names that Convoy makes
// are ever removed: the folder may hold a user's own files.
#pragma once
#include <string>

#include "train/run_files.h"

namespace convoy {

/// Removes what a killed run was writing, and the reports of its watchdog.
void remove_leftovers(const RunFiles&);
/// Whether the run in a folder may have done a step; false if it was ended before its first.
bool has_steps(const RunFiles&);
/// Removes the run that --overwrite replaces. Throws Exit::io.
void remove_run(const RunFiles&);

/// Returns a warning if the folder is another user's, or every user may write there; else "".
std::string warning_of_owner(const HeldFolder& run);
/// Returns a warning if every user may exchange the folder for another one; else "". A folder that
/// a group may write in is taken as meant so.
std::string warning_of_parent(const HeldFolder& run);

}  // namespace convoy
