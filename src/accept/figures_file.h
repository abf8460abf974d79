// metrics.h5 of an acceptance test: the figures of its levels as columns with units.
#pragma once
#include "accept/acceptance.h"

namespace convoy {

/// Returns the bytes of the file: a group for each level, and in it one for each figure with the
/// data sets `value`, and `host`, `peer`, `rank` and `at` if the figure has them. output/FORMAT.md
/// has the details. `path` is for messages. Throws Exit::io.
std::vector<unsigned char> acceptance_metrics(const Acceptance&, const std::string& path);

}  // namespace convoy
