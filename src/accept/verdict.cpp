#include "accept/verdict.h"

#include <algorithm>
#include <set>

namespace convoy {

const char* name_of(Outcome outcome) {
    switch (outcome) {
        case Outcome::pass: return "PASS";
        case Outcome::warn: return "WARN";
        case Outcome::fail: return "FAIL";
        case Outcome::skip: return "SKIP";
    }
    return "";
}

std::vector<Figure> figures_named(const LevelResult& level, const std::string& name) {
    std::vector<Figure> figures;
    for (const Figure& f : level.figures)
        if (f.name == name) figures.push_back(f);
    return figures;
}

Outcome verdict_of(const std::vector<LevelResult>& levels) {
    const auto any = [&](Outcome outcome) { return std::ranges::count(levels, outcome, &LevelResult::outcome) > 0; };
    if (any(Outcome::fail)) return Outcome::fail;
    if (any(Outcome::warn)) return Outcome::warn;
    return any(Outcome::pass) ? Outcome::pass : Outcome::skip;
}

std::vector<std::string> hosts_to_drain(const std::vector<LevelResult>& levels) {
    std::set<std::string> hosts;
    for (const LevelResult& level : levels)
        for (const Blamed& b : level.blamed)
            if (b.drain) hosts.insert(b.host);
    return {hosts.begin(), hosts.end()};
}

}  // namespace convoy
