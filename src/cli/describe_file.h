// Describes a file or folder of Convoy for `convoy info PATH`.
#pragma once
#include <string>

namespace convoy {

/// Returns about ten lines "name  text" on a run folder, a model file or checkpoint, or a data set.
/// Throws Exit::bad_input if `path` is none of these, or is damaged.
std::string description_of(const std::string& path);

}  // namespace convoy
