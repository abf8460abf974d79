// The tables of `convoy comm-test --bytes SIZES --json FILE`: what sums over ranks took.
#pragma once
#include <string>
#include <vector>

#include "plan/cluster.h"

namespace convoy {

/// By rising size. Throws Exit::bad_input: no such table, a table of one rank, sizes that do not
/// rise, a time that falls as the size rises.
std::vector<MeasuredSum> read_measured_sums(const std::string& path);

}  // namespace convoy
