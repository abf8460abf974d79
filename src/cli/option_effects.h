// Options that only do something next to others. One that was given and does nothing is refused:
// silence would look like consent.
#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cli/train_options.h"

namespace convoy {

// Each throws Exit::usage, naming the option and what it needs. A value that is the default does
// not count as given, so that what --print-config prints can be read back.

/// Refuses options that need another one, or contradict it: a chip without --dry-run or without the
/// precision, two ways to crop, a unit or a loss that --lr auto does not have, a schedule without
/// its points.
void check_together(const TrainOptions&);
/// Refuses options without effect, as far as the options alone tell. An option of a file that loses
/// its effect by a flag is resolved to its default, because flags win over the file.
void check_effects(ParsedOptions&);
/// Options of parameters and operations that the model does not have. A file may have them: it
/// serves several models.
void check_effects_on_model(const ParsedOptions&, const Graph&);
/// Options of GPUs on a CPU, and of CPUs on a GPU. A file may have them: it serves both.
void check_effects_on_device(const ParsedOptions&, const Backend&);

}  // namespace convoy
