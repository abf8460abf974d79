// Reader of received figures for tests/fuzz/readers.h.
#pragma once
#include <string>

#include "tests/fuzz/readers.h"

namespace convoy::test {

// Changes words of one of the files of figures that people hand each other, and does with it what
// report, predict or accept do.
void read_figures(const std::string& dir, Bytes);

}  // namespace convoy::test
