// Memory that caches file contents counts as free, because the kernel reclaims it before it kills a
// process. This also holds within control groups.
#include "base/memory_limits.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>

#include "base/control_groups.h"

namespace convoy {
namespace {

constexpr size_t unlimited = std::numeric_limits<size_t>::max();
/// Control groups of version 1 express "no limit" as a number of bytes above this.
constexpr size_t least_unlimited = size_t(1) << 60;

/// Returns the number at the start of `text`; nullopt for "max" and "unlimited".
std::optional<size_t> number_in(const std::string& text) {
    std::istringstream in(text);
    size_t number = 0;
    if (in >> number) return number;
    return std::nullopt;
}

/// Returns the number after `key` in the first line of a file that starts with `key`.
std::optional<size_t> entry(const std::string& path, const std::string& key) {
    for (const std::string& line : lines_of(path))
        if (line.starts_with(key)) return number_in(line.substr(key.size()));
    return std::nullopt;
}

std::string mib(size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }
size_t less(size_t from, size_t what) { return from - std::min(from, what); }

void add_node(const std::string& root, std::vector<MemoryLimit>& limits) {
    if (const auto kib = entry(root + "/proc/meminfo", "MemAvailable:"))
        limits.push_back({.left = *kib << 10,
                          .name = "the memory of this node",
                          .remedy = "",
                          .group = "node",
                          .shared_counts = true});
}

/// Adds a soft limit from /proc/self/limits. The memory in use is read from /proc/self/status.
void add_of_process(const std::string& root, const std::string& limit, const std::string& use, const std::string& shell,
                    bool shared_counts, std::vector<MemoryLimit>& limits) {
    const auto most = entry(root + "/proc/self/limits", limit);
    if (!most) return;
    const size_t used = entry(root + "/proc/self/status", use).value_or(0) << 10;
    limits.push_back({.left = less(*most, used),
                      .name = "the limit of " + mib(*most) + " of each process (" + shell + ")",
                      .remedy = "raise " + shell,
                      .group = "",
                      .shared_counts = shared_counts});
}

/// The file names of a version of control groups.
struct Files {
    std::vector<std::string> limits;
    std::string use;
    std::vector<std::string> reclaimable;  ///< keys of memory.stat: memory the kernel reclaims before it kills
};
const Files version1{
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_inactive_file ", "total_active_file "}};
const Files version2{
    {"memory.max", "memory.high"}, "memory.current", {"inactive_file ", "active_file ", "slab_reclaimable "}};

void add_group(const ControlGroup& group, std::vector<MemoryLimit>& limits) {
    const std::string& folder = group.folder;
    const Files& files = group.unified ? version2 : version1;
    size_t most = unlimited;
    for (const std::string& file : files.limits)
        most = std::min(most, entry(folder + "/" + file, "").value_or(unlimited));
    if (most >= least_unlimited) return;
    const std::string stat = folder + "/memory.stat";
    size_t used = entry(folder + "/" + files.use, "").value_or(0);
    for (const std::string& pages : files.reclaimable) used = less(used, entry(stat, pages).value_or(0));
    limits.push_back({.left = less(most, used),
                      .name = "the limit of " + mib(most) + " of control group " + group.name,
                      .remedy = "ask for more memory (Slurm: --mem)",
                      .group = identity_of(group),
                      .shared_counts = true});
}

/// Returns true if a group's limit does not apply to the groups below it; version 1 only.
bool alone(const std::string& folder) { return entry(folder + "/memory.use_hierarchy", "") == 0; }

}  // namespace

std::vector<MemoryLimit> memory_limits(const std::string& root) {
    std::vector<MemoryLimit> limits;
    add_node(root, limits);
    add_of_process(root, "Max address space", "VmSize:", "ulimit -v", true, limits);
    add_of_process(root, "Max data size", "VmData:", "ulimit -d", false, limits);
    for (const std::vector<ControlGroup>& nested : control_groups(root, "memory"))
        for (const ControlGroup& group : nested)
            if (&group == &nested.front() || group.unified || !alone(group.folder)) add_group(group, limits);
    return limits;
}

}  // namespace convoy
