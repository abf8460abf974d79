// convoy train --dry-run: does what a training does before its first image, on a backend that
// counts memory but allocates none.
#pragma once
#include "cli/time_limit.h"
#include "cli/train_options.h"

namespace convoy {

class Comm;
class Terminal;

/// Collective. Prints the setup and refuses what a training would, with its message and exit code.
/// Reads manifests, headers of shards and checkpoints, and leaves nothing on disk.
int dry_run(Comm&, ParsedOptions&, const TimeLimit&, Terminal&);

}  // namespace convoy
