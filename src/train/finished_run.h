// Runs that are done and kept no checkpoint (--keep 0, --checkpoint-every none).
#pragma once
#include "train/run_folder.h"

namespace convoy {

/// Whether the run that is to go on was trained to this step and ended there, with its model on
/// disk, and left no checkpoint because it was to keep none. Throws as checkpoints_of() and
/// read_metrics().
bool is_finished(const RunPlace&, int64_t total_steps);

}  // namespace convoy
