// Resuming without options: `--resume auto --output RUN` takes them from what the run recorded. A
// command line with --data and a batch is complete, and takes nothing from there.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/train_options.h"
#include "comm/comm.h"

namespace convoy {

/// Returns the options that rank 0 finds in the run that `args` resume; nothing if they resume
/// none, or are complete. Collective; call it before options are parsed.
RecordedOptions recorded_options(Comm&, const std::vector<std::string>& args);

/// Stores what the run recorded where `given` has nothing, but for options that say what Convoy
/// writes or replaces. Returns a note on that for people; empty if a run was not asked for. Throws
/// Exit::bad_input, and Exit::usage where there is no run, or where its data is not known.
std::string take_recorded(const RecordedOptions&, const boost::program_options::options_description& all,
                          const TrainOptions& given, const std::vector<std::set<std::string>>& alternatives,
                          ConfiguredValues&);

/// Leaves the values of environment variables out of a launcher's words: `mpirun -x A=1` becomes
/// `mpirun -x A`, which passes the shell's value on. Values may be secret, and logs keep what is
/// printed.
std::vector<std::string> without_values(const std::vector<std::string>& launcher);

/// Returns the whole command that continues a run in `folder`, quoted for a shell, with the
/// launcher that started this process. `args` are those of `convoy train`.
std::string continuing_command(const ParsedOptions&, const std::vector<std::string>& args, const std::string& folder,
                               int ranks);

}  // namespace convoy
