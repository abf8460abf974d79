// Reads the tables of measured all-reduces that `convoy comm-test --bytes SIZES --json FILE`
// writes.
#pragma once
#include <string>
#include <vector>

#include "plan/cluster.h"

namespace convoy {

/// Returns the measurements by rising size. Throws Exit::bad_input if the file is no such table or
/// has one rank, if sizes do not rise, or if a time falls as the size rises.
std::vector<MeasuredSum> read_measured_sums(const std::string& path);

}  // namespace convoy
