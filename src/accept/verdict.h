// The findings of an acceptance test of a cluster: one result per level, and the hosts and devices
// that it blames.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "comm/host.h"

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

/// A number that a level measured, for programs and pictures.
struct Figure {
    std::string name;       ///< "pair_bandwidth": small letters and underscores
    std::string unit;       ///< "bytes/s"; "1" for a plain number
    double value = 0;       ///< finite
    std::string host{};     ///< empty: of all hosts
    std::string peer{};     ///< the other host of a pair; empty: no pair
    int rank = -1;          ///< -1: of no single rank
    double at = NAN;        ///< place on a curve, in `at_unit`; NaN: no curve
    std::string at_unit{};  ///< "bytes" or "s"; empty: no curve
};

/// The facts of a host, or of one of its devices.
struct UnitFacts {
    std::string host, device{};  ///< `device` as in Blamed
    Facts facts{};
};

struct LevelResult {
    std::string level;
    Outcome outcome = Outcome::pass;
    std::string figure{};    ///< what was found or measured, in a few words
    std::string expected{};  ///< what it was compared with; empty: with nothing
    std::vector<Blamed> blamed{};
    std::vector<std::string> details{};  ///< further lines, for the report
    double seconds = 0;                  ///< that the level took
    std::vector<Figure> figures{};
    std::vector<UnitFacts> facts{};  ///< of the inventory: hosts first, then devices

    /// Adds a figure. Leaves it out if its value is not finite, which means not known.
    void add(Figure f) {
        if (std::isfinite(f.value)) figures.push_back(std::move(f));
    }
};

/// Returns the figures of this name, in their order.
std::vector<Figure> figures_named(const LevelResult&, const std::string& name);

/// Returns the worst outcome. A level that was skipped does not count, unless all were.
Outcome verdict_of(const std::vector<LevelResult>&);
/// Returns the hosts to drain, each once, in the order of their names.
std::vector<std::string> hosts_to_drain(const std::vector<LevelResult>&);

}  // namespace convoy
