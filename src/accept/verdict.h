// The findings of an acceptance test of a cluster: one result per level, and the hosts and devices
// that it blames.
#pragma once
#include <string>
#include <vector>

namespace convoy {

enum class Outcome { pass, warn, fail, skip };
const char* name_of(Outcome);  ///< "PASS", "WARN", "FAIL", "SKIP"

/// A host, or one of its devices, that a level found wrong or slow.
struct Blamed {
    std::string host;
    std::string device{};  ///< "GPU 3", "rank 5"; empty: the whole host
    std::string reason;    ///< a few words: "driver 580.65.06, the others 580.82.07"
    bool drain = false;    ///< true: jobs should avoid the host until it is repaired
};

struct LevelResult {
    std::string level;
    Outcome outcome = Outcome::pass;
    std::string figure{};    ///< what was found or measured, in a few words
    std::string expected{};  ///< what it was compared with; empty: with nothing
    std::vector<Blamed> blamed{};
    std::vector<std::string> details{};  ///< further lines, for the report
    double seconds = 0;                  ///< that the level took
};

/// Returns the worst outcome. A level that was skipped does not count, unless all were.
Outcome verdict_of(const std::vector<LevelResult>&);
/// Returns the hosts to drain, each once, in the order of their names.
std::vector<std::string> hosts_to_drain(const std::vector<LevelResult>&);

}  // namespace convoy
