// Queries that only the CPU backend answers.
#pragma once
#include <string>

#include "backend/backend.h"

namespace convoy {

/// Returns a table of how each convolution of a model's training step runs on this processor. It
/// has a line per size, with the times of all algorithms that apply. Measures sizes that the user's
/// tuning file lacks. Collective. Throws Exit::usage.
std::string conv_table(const Graph&, const BackendOptions&, Comm&);

}  // namespace convoy
