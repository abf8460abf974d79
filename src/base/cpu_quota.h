// Limits of processor time that control groups set, for containers for example (`docker --cpus 2`).
// Affinity does not show them: with a quota of two processors, a process may run on all processors
// until the kernel throttles it.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace convoy {

struct CpuQuota {
    double processors = 0;  ///< processor seconds per second
    std::string name;       ///< "the quota of 2 processors of control group /docker/abc"
    std::string group;      ///< the same text in all processes that share the quota
};

/// Returns all CPU quotas of this process. `root` precedes /proc and the mount points, for tests.
std::vector<CpuQuota> cpu_quotas(const std::string& root = "");

/// A rank's share of the smallest quota.
struct CpuShare {
    double processors = 0;
    std::string why;  ///< "the quota of 2 processors of control group /docker/abc, for 2 ranks"
};

/// Returns this rank's share of the smallest of its quotas; nullopt if it has none. `groups`:
/// CpuQuota::group of all quotas on all ranks of the node, in any order. The ranks of a group get
/// equal shares.
std::optional<CpuShare> share_of_quotas(const std::vector<CpuQuota>& own, const std::vector<std::string>& groups);
/// Returns true if the quota grants less than a rank's share of the cores.
bool is_narrower(const std::optional<CpuShare>& quota, double cores);
/// Returns the number of threads for a rank: its whole cores, but at most its share of the quota
/// rounded up, and at least one.
int threads_for(double cores, const std::optional<CpuShare>& quota);

}  // namespace convoy
