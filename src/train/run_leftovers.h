// Removes files of ended runs, and tells the owner of a run folder. Only names that Convoy makes
// are ever removed: the folder may hold a user's own files.
#pragma once
#include <string>

namespace convoy {

/// Removes what a killed run was writing, and the reports of its watchdog.
void remove_leftovers(const std::string& run_dir);
/// Whether the run in a folder may have done a step; false if it was ended before its first.
bool has_steps(const std::string& run_dir);
/// Removes the run that --overwrite replaces. Throws Exit::io.
void remove_run(const std::string& run_dir);

/// Fails with Exit::io if RUN/checkpoints is a link of another user, or leads into another run.
/// Returns what people should know of a link that is neither; empty if there is none.
std::string check_checkpoints_link(const std::string& run_dir);
/// Returns a warning if the folder is another user's, or every user may write there; else "".
std::string warning_of_owner(const std::string& run_dir);

}  // namespace convoy
