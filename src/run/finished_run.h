// Recognises finished runs that kept no checkpoint (--keep 0, --checkpoint-every none).
#pragma once
#include "run/run_folder.h"

namespace convoy {

/// True if the run to resume has already finished. That is so if it ended at this step, its model
/// is on disk, and it has no checkpoint because none was to be kept. Throws what checkpoints_of()
/// and read_metrics() throw.
bool is_finished(const RunPlace&, int64_t total_steps);

}  // namespace convoy
