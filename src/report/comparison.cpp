// Compares runs: finds the options that differ, and sorts the runs, the best first.
#include <algorithm>
#include <map>
#include <set>

#include "report/summary.h"

namespace convoy {
namespace {

/// Returns true if an option may affect what a run computed. Options about its folder, or about how
/// it was started, watched and shown, do not.
bool is_compared(const std::string& option) {
    static const std::set<std::string> others = {"resume",        "time-limit",   "watchdog", "log-format",
                                                 "publish-every", "log-interval", "audit",    "on-audit"};
    return !others.contains(option) && !writing_options().contains(option);
}

/// Returns the names of compared options that any run recorded, in the order of first occurrence.
std::vector<std::string> recorded_names(const std::vector<RunSummary>& runs) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const RunSummary& s : runs)
        for (const auto& [option, value] : s.options)
            if (is_compared(option) && seen.insert(option).second) names.push_back(option);
    return names;
}

/// Returns true if `a` comes before `b`. A run whose best accuracy is NaN was not evaluated.
bool is_better(const RunSummary& a, const RunSummary& b) {
    if (std::isnan(a.best_accuracy) || std::isnan(b.best_accuracy))
        return std::isnan(a.best_accuracy) < std::isnan(b.best_accuracy);
    return a.best_accuracy > b.best_accuracy;
}

/// Returns the value of an option that a run recorded. Model and precision may also be recorded
/// apart from the options. Empty if there is none.
std::string value_of(const RunSummary& s, const std::map<std::string, std::string>& options, const std::string& name) {
    if (const auto own = options.find(name); own != options.end()) return own->second;
    return name == "model" ? s.model : name == "precision" ? s.precision : "";
}

}  // namespace

void compare(std::vector<RunSummary>& runs, const ConfigPairs& defaults) {
    std::stable_sort(runs.begin(), runs.end(), is_better);
    const std::map<std::string, std::string> by_default(defaults.begin(), defaults.end());
    std::vector<std::map<std::string, std::string>> recorded;
    for (RunSummary& s : runs) {
        recorded.emplace_back(s.options.begin(), s.options.end());
        s.differing.clear();
    }
    for (const std::string& name : recorded_names(runs)) {
        std::set<std::string> values;
        for (const auto& options : recorded) {
            if (options.empty()) continue;  // this run recorded no options at all
            const auto own = options.find(name), otherwise = by_default.find(name);
            if (own != options.end())
                values.insert(own->second);
            else
                values.insert(otherwise == by_default.end() ? "" : otherwise->second);
        }
        if (values.size() < 2) continue;
        for (size_t i = 0; i < runs.size(); ++i)
            runs[i].differing.emplace_back(name, value_of(runs[i], recorded[i], name));
    }
}

void add_published(std::vector<RunSummary>& runs, const std::vector<PublishedRun>& published) {
    for (RunSummary& s : runs)
        for (const PublishedRun& p : published)
            if (p.model == s.model && p.image_size == s.image_size && (s.classes == 0 || s.classes == p.classes))
                s.published.push_back(p);
}

}  // namespace convoy
