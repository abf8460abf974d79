// Recognises finished runs that kept no checkpoint (--keep 0, --checkpoint-every none).
#pragma once
#include "run/run_folder.h"

namespace convoy {

/// Returns true if the run to resume has already finished: it ended at this step, its model is on
/// disk, and its options said to keep no checkpoint. In that case warns on stderr if other users
/// can change the run, and throws Exit::usage if it recorded another identity than `run`. Also
/// throws what checkpoints_of() and read_metrics() throw.
bool is_finished(const RunPlace&, const Identity& run, int64_t total_steps);

}  // namespace convoy
