#include "run/finished_run.h"

#include <cstdio>

#include "base/folder.h"
#include "base/text.h"
#include "run/configuration.h"
#include "run/metrics_file.h"
#include "run/run_leftovers.h"
#include "train/checkpoint.h"

namespace convoy {
namespace {

/// Warns if another user can change the folder, because the results there may be that user's.
void warn_of_owner(const std::string& folder) {
    const std::string warning = warning_of_owner(RunFiles(folder).run());
    if (!warning.empty()) std::fprintf(stderr, "warning: %s\n", printable(warning).c_str());
}

}  // namespace

bool is_finished(const RunPlace& place, const Identity& run, int64_t total_steps) {
    const std::string metrics = place.folder + "/metrics.h5";
    if (!place.continues || !place.checkpoint.empty() || !is_there(place.folder + "/model.h5") || !is_there(metrics) ||
        !checkpoints_of(place.folder).empty())
        return false;
    const MetricsFile file = read_metrics(metrics);
    const std::vector<EventRow>& events = file.rows<EventRow>();
    const auto recorded = file.run.find("configuration");
    if (recorded == file.run.end() || events.empty()) return false;
    // If a run keeps checkpoints but has none, they are lost, or their file system is not mounted.
    const bool keeps_none =
        config_value(recorded->second, "keep") == "0" || config_value(recorded->second, "checkpoint-every") == "none";
    const bool finished = keeps_none && events.back().kind == "done" && events.back().step == total_steps;
    if (!finished) return false;
    warn_of_owner(place.folder);
    Identity known, of_run;  // only facts that the run recorded; earlier versions recorded fewer
    for (const auto& [name, value] : run)
        if (const auto found = file.run.find(name); found != file.run.end()) {
            known.emplace_back(*found);
            of_run.emplace_back(name, value);
        }
    check_identity(metrics, known, of_run);
    return true;
}

}  // namespace convoy
