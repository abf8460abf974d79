// The results of an acceptance test, for people and for programs.
#pragma once
#include "accept/verdict.h"

namespace convoy {

struct Acceptance {
    std::string version, commit, began;  ///< `began`: "2026-11-27T05:00:00Z"
    std::string host{};                  ///< of rank 0
    int nodes = 1, ranks = 1;
    std::vector<LevelResult> levels;
    std::vector<std::string> not_run{};  ///< levels that did not end yet
};

/// Returns a level's line: "PASS  bits       4 of 4 devices have the bits of their kind". Lines
/// below it name what is blamed.
std::string level_text(const LevelResult&);
/// Returns the last lines: the verdict, the hosts to drain, and how Slurm and PBS leave them out.
std::string verdict_text(const std::vector<LevelResult>&);
/// Returns the results as JSON. output/FORMAT.md lists the keys.
std::string acceptance_json(const Acceptance&);
/// Returns the results as JUnit XML: a test case per level.
std::string acceptance_junit(const Acceptance&);
/// Returns the results as a text file for Prometheus' node exporter.
std::string acceptance_prometheus(const Acceptance&);

}  // namespace convoy
