// Reads the tables of measured all-reduces that `convoy comm-test --bytes SIZES --json FILE`
// writes.
#pragma once
#include <string>
#include <vector>

#include "plan/cluster.h"

namespace convoy {

/// Returns the measurements by rising size. Throws Exit::bad_input for a file that is not such a
/// table or is for one rank. Also throws it if sizes do not rise, or if times fall.
std::vector<MeasuredAllReduce> read_measured_all_reduces(const std::string& path);

}  // namespace convoy
