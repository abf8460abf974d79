// Resuming without options: `--resume auto --output RUN` takes them from the run's record. A
// command line with --data and a batch is complete, and takes nothing from the record.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/train_options.h"
#include "comm/comm.h"

namespace convoy {

/// Returns the recorded options of the run that `args` resume; rank 0 reads them. Returns nothing
/// if `args` resume no run or are complete. Collective; call it before options are parsed.
RecordedOptions recorded_options(Comm&, const std::vector<std::string>& args);

/// Stores recorded options that are not `given`, except those that say what Convoy writes or
/// replaces. Returns a note for the user that names their file; empty if no run is to be resumed.
/// Throws Exit::bad_input. Throws Exit::usage if there is no run, or if its data set is not known.
std::string take_recorded(const RecordedOptions&, const boost::program_options::options_description& all,
                          const TrainOptions& given, const std::vector<std::set<std::string>>& alternatives,
                          ConfiguredValues&);

/// Removes the values of environment variables from a launcher's words: `mpirun -x A=1` becomes
/// `mpirun -x A`, which passes the shell's value on. The result may be logged, and values may be
/// secret.
std::vector<std::string> without_values(const std::vector<std::string>& launcher);

/// Returns the whole command that continues a run in `folder`, quoted for a shell, with the
/// launcher that started this process. `args` are those of `convoy train`.
std::string continuing_command(const ParsedOptions&, const std::vector<std::string>& args, const std::string& folder,
                               int ranks);

}  // namespace convoy
