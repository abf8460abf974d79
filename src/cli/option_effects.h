// Refuses options that were given but have no effect, because another option or the device decides.
// A user would otherwise believe that they work.
#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cli/train_options.h"

namespace convoy {

// Each function throws Exit::usage, naming the option and what it needs. A default value does not
// count as given, so that the output of --print-config can be read back.

/// Refuses options that need another one or contradict it. These are: a chip without --dry-run or
/// without the precision; two ways to crop; a unit or a loss that --lr auto does not support; a
/// schedule without its points.
void check_together(const TrainOptions&);
/// Refuses options without effect, as far as the options alone show that. If a flag takes away the
/// effect of an option in a file, that option is set to its default, because flags win over the
/// file.
void check_effects(ParsedOptions&);
/// Refuses options about parameters and operations that the model does not have. They are allowed
/// in a file, because a file serves several models.
void check_effects_on_model(const ParsedOptions&, const Graph&);
/// Refuses options of GPUs on a CPU, and options of CPUs on a GPU. They are allowed in a file,
/// because a file serves both.
void check_effects_on_device(const ParsedOptions&, const Backend&);

}  // namespace convoy
