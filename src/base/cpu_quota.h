// Processor time that control groups grant, as containers' limits do (`docker --cpus 2`). Affinity
// does not show it: a process with a quota of two processors may run on all, and is then halted.
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

/// A rank's share of the narrowest quota.
struct CpuShare {
    double processors = 0;
    std::string why;  ///< "the quota of 2 processors of control group /docker/abc, for 2 ranks"
};

/// `groups`: CpuQuota::group of all quotas on all ranks of the node, in any order. The ranks of a
/// group get equal shares. Nothing if there is no quota.
std::optional<CpuShare> share_of_quotas(const std::vector<CpuQuota>& own, const std::vector<std::string>& groups);
/// Whether the quota grants less than a rank's share of the cores.
bool is_narrower(const std::optional<CpuShare>& quota, double cores);
/// Threads of a rank: as many as it has whole cores, at least one, and no more than its share of
/// the quota, rounded up.
int threads_for(double cores, const std::optional<CpuShare>& quota);

}  // namespace convoy
