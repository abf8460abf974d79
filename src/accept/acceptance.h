// The results of an acceptance test, and accept.json, which keeps them. An acceptance that was
// killed continues from that file.
#pragma once
#include <set>

#include "accept/verdict.h"

namespace convoy {

struct Acceptance {
    std::string version, commit, began;  ///< `began`: "2026-11-27T05:00:00Z"
    std::string host{};                  ///< of rank 0
    int nodes = 1, ranks = 1;
    std::vector<LevelResult> levels;
    std::vector<std::string> not_run{};  ///< levels that did not end yet
    std::vector<std::string> hosts{};    ///< of each rank
    Facts options{};                     ///< name and value of each option that results depend on
};

/// Returns the names of all levels, in the order in which they run.
const std::vector<std::string>& level_names();

/// Returns "PASS" and so on; "UNFINISHED" until the last level has ended.
const char* verdict_name(const Acceptance&);

/// Returns the results as JSON. output/FORMAT.md lists the keys.
std::string acceptance_json(const Acceptance&);
/// Returns the results in the JSON `text`. Escapes control characters in strings by printable().
/// Throws Exit::bad_input, naming `file` and the key, if the JSON is not of this form.
Acceptance read_acceptance(const std::string& text, const std::string& file);
/// The largest accept.json that is read [bytes]. It suffices for a thousand hosts, whose pairs have
/// half a million bandwidths.
constexpr size_t most_bytes_of_acceptance = size_t(256) << 20;

/// Copies to `now` the time at which `earlier` began, and its levels that `now` has not run yet.
/// Leaves out the levels in `again`. Throws Exit::usage, naming the first difference, if
/// hosts, ranks, version or options differ. Throws Exit::bad_input if a level names another host.
/// `file`: the file of `earlier`, for messages.
void continue_from(const Acceptance& earlier, const std::string& file, const std::set<std::string>& again,
                   Acceptance& now);
/// Returns the acceptance with only the name and outcome of each level. Ranks that write no reports
/// need no more.
Acceptance outline_of(Acceptance);

}  // namespace convoy
