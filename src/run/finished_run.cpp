#include "run/finished_run.h"

#include "base/folder.h"
#include "run/configuration.h"
#include "run/metrics_file.h"
#include "train/checkpoint.h"

namespace convoy {

bool is_finished(const RunPlace& place, int64_t total_steps) {
    const std::string metrics = place.folder + "/metrics.h5";
    if (!place.goes_on || !place.checkpoint.empty() || !is_there(place.folder + "/model.h5") || !is_there(metrics) ||
        !checkpoints_of(place.folder).empty())
        return false;
    const MetricsFile file = read_metrics(metrics);
    const std::vector<EventRow>& events = file.rows<EventRow>();
    const auto recorded = file.run.find("configuration");
    if (recorded == file.run.end() || events.empty()) return false;
    // Otherwise checkpoints were lost, or their file system is not mounted.
    const bool keeps_none =
        config_value(recorded->second, "keep") == "0" || config_value(recorded->second, "checkpoint-every") == "none";
    return keeps_none && events.back().kind == "done" && events.back().step == total_steps;
}

}  // namespace convoy
