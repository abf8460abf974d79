// What only the CPU backend tells.
#pragma once
#include <string>

#include "backend/backend.h"

namespace convoy {

/// How each convolution of a model's training step runs on this processor, with the times of all
/// ways that can: a line a size. Measures what the user's file does not know. Collective. Throws
/// Exit::usage.
std::string conv_table(const Graph&, const BackendOptions&, Comm&);

}  // namespace convoy
