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

/// Refuses options that lack another one, or contradict it. Examples: --chip without --dry-run, two
/// ways to crop, --lr auto with a unit or loss that it does not support, or --lr-schedule linear
/// without --lr-points.
void check_together(const TrainOptions&);
/// Refuses options without effect, as far as the options alone show that. If the command line takes
/// away the effect of an option in a file, records that option's default instead of refusing it,
/// because the command line wins.
void check_effects(ParsedOptions&);
/// Refuses options about parameters and operations that the model does not have. They are allowed
/// in a file, because a file serves several models.
void check_effects_on_model(const ParsedOptions&, const Graph&);
/// Refuses options of GPUs on a CPU, and options of CPUs on a GPU. They are allowed in a file,
/// because a file serves both.
void check_effects_on_device(const ParsedOptions&, const Backend&);

}  // namespace convoy
