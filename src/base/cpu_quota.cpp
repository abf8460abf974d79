#include "base/cpu_quota.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/control_groups.h"
#include "base/text.h"

namespace convoy {
namespace {

constexpr double rounding = 0.001;  // processors

/// Returns the number at the start of a file; 0 if there is none, as in "max".
double number_in(const std::string& path) {
    double number = 0;
    for (const std::string& line : lines_of(path)) {
        std::istringstream(line) >> number;
        break;
    }
    return number;
}

/// Returns the quota in processor seconds per second; 0 if there is none ("max", or -1 in version
/// 1).
double quota_of(const ControlGroup& group) {
    double quota = 0, period = 0;  // microseconds
    if (group.unified) {
        for (const std::string& line : lines_of(group.folder + "/cpu.max")) std::istringstream(line) >> quota >> period;
    } else {
        quota = number_in(group.folder + "/cpu.cfs_quota_us");
        period = number_in(group.folder + "/cpu.cfs_period_us");
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

std::vector<CpuQuota> cpu_quotas(const std::string& root) {
    std::vector<CpuQuota> quotas;
    for (const std::vector<ControlGroup>& nested : control_groups(root, "cpu"))
        for (const ControlGroup& group : nested)
            if (const double processors = quota_of(group); processors > 0)
                quotas.push_back({processors,
                                  formatted("the quota of %.3g processor%s of control group %s", processors,
                                            processors == 1 ? "" : "s", group.name.c_str()),
                                  identity_of(group)});
    return quotas;
}

std::optional<CpuShare> share_of_quotas(const std::vector<CpuQuota>& own, const std::vector<std::string>& groups) {
    std::optional<CpuShare> least;
    for (const CpuQuota& quota : own) {
        const auto ranks = std::max<int64_t>(1, std::count(groups.begin(), groups.end(), quota.group));
        const double share = quota.processors / double(ranks);
        if (!least || share < least->processors)
            least = {share, quota.name + (ranks > 1 ? ", for " + std::to_string(ranks) + " ranks" : "")};
    }
    return least;
}

bool is_narrower(const std::optional<CpuShare>& quota, double cores) {
    return quota && quota->processors < cores - rounding;
}

// Rounds up. With a quota of 1.5 processors, two threads are faster than one; with a quota of 1,
// one is faster (tests/RESULTS.md).
int threads_for(double cores, const std::optional<CpuShare>& quota) {
    const int whole = std::max(1, int(cores + rounding));
    return is_narrower(quota, cores) ? std::clamp(int(std::ceil(quota->processors - rounding)), 1, whole) : whole;
}

}  // namespace convoy
