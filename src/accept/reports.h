// The results of an acceptance test, for people and for programs.
#pragma once
#include "accept/acceptance.h"

namespace convoy {

/// Returns "node07, GPU 3"; the host alone if no device is blamed.
std::string named(const Blamed&);
/// Returns a level's line: "PASS  bits       4 of 4 devices have the bits of their kind". Lines
/// below it name what is blamed.
std::string level_text(const LevelResult&);
/// Returns the last lines: the verdict, the hosts to drain, and how Slurm and PBS leave them out.
std::string verdict_text(const std::vector<LevelResult>&);
/// Returns the results as JUnit XML: a test case per level.
std::string acceptance_junit(const Acceptance&);
/// Returns the results as a text file for Prometheus' node exporter. A figure is a gauge. Leaves
/// out figures with more than 2,000 values, and all but the last point of a curve over time.
std::string acceptance_prometheus(const Acceptance&);

}  // namespace convoy
