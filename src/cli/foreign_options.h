// Options that people know from PyTorch's scripts and launchers, and what there is here. They are
// no aliases: the error names ours.
#pragma once
#include <string>

namespace convoy {

/// What to write instead of an option of another program; empty if it is none that is known. `name`
/// has no dashes in front; within, '_' counts as '-': "world-size", "gpu_devices", "td".
std::string instead_of_foreign(std::string name);

}  // namespace convoy
