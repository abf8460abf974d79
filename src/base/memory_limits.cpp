// Memory that holds file contents counts as free, also within control groups: the kernel takes it
// back before it kills.
#include "base/memory_limits.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace convoy {
namespace {

constexpr size_t unlimited = std::numeric_limits<size_t>::max();
/// Control groups of version 1 say "no limit" by the largest number of pages.
constexpr size_t least_unlimited = size_t(1) << 60;

std::vector<std::string> lines_of(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
    return parts;
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

/// The number that `text` begins with; nothing for "max" and "unlimited".
std::optional<size_t> number_in(const std::string& text) {
    std::istringstream in(text);
    size_t number = 0;
    if (in >> number) return number;
    return std::nullopt;
}

/// The number after `key` at the start of a line of a file.
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

/// The soft limit of a line of /proc/self/limits, against what is in use by a line of
/// /proc/self/status.
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

/// How a version of control groups names its files.
struct Files {
    std::vector<std::string> limits;
    std::string use;
    std::vector<std::string> reclaimable;  ///< keys of memory.stat: what the kernel takes back before it ends anybody
};
const Files version1{
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_inactive_file ", "total_active_file "}};
const Files version2{
    {"memory.max", "memory.high"}, "memory.current", {"inactive_file ", "active_file ", "slab_reclaimable "}};

/// A text that is equal for the same folder in every process of a node, also if they see it by
/// other paths.
std::string identity_of(const std::string& folder) {
    struct stat s{};
    if (::stat(folder.c_str(), &s) != 0) return folder;
    return "cgroup " + std::to_string(s.st_dev) + ":" + std::to_string(s.st_ino);
}

void add_group(const std::string& folder, const std::string& name, const Files& files,
               std::vector<MemoryLimit>& limits) {
    size_t most = unlimited;
    for (const std::string& file : files.limits)
        most = std::min(most, entry(folder + "/" + file, "").value_or(unlimited));
    if (most >= least_unlimited) return;
    const std::string stat = folder + "/memory.stat";
    size_t used = entry(folder + "/" + files.use, "").value_or(0);
    for (const std::string& pages : files.reclaimable) used = less(used, entry(stat, pages).value_or(0));
    limits.push_back({.left = less(most, used),
                      .name = "the limit of " + mib(most) + " of control group " + name,
                      .remedy = "ask for more memory (Slurm: --mem)",
                      .group = identity_of(folder),
                      .shared_counts = true});
}

/// Where a hierarchy of control groups is mounted, and which of its groups is seen there.
struct Mount {
    std::string point, group;
};

/// The mount of the memory controller (version 1), or of the unified hierarchy, in
/// /proc/self/mountinfo.
std::optional<Mount> mount_of(const std::string& root, bool unified) {
    for (const std::string& line : lines_of(root + "/proc/self/mountinfo")) {
        const size_t dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        const std::vector<std::string> mount = split(line, ' '), type = split(line.substr(dash + 3), ' ');
        if (mount.size() < 5 || type.size() < 3) continue;
        if (unified ? type[0] == "cgroup2" : type[0] == "cgroup" && contains(split(type[2], ','), "memory"))
            return Mount{mount[4], mount[3] == "/" ? "" : mount[3]};
    }
    return std::nullopt;
}

/// Whether a group's limit does not hold for the groups below it; version 1 only.
bool alone(const std::string& folder) { return entry(folder + "/memory.use_hierarchy", "") == 0; }

/// The limits of a group and of all above it, up to the one that is mounted.
void add_groups(const std::string& root, const std::string& path, bool unified, std::vector<MemoryLimit>& limits) {
    const auto mount = mount_of(root, unified);
    if (!mount) return;
    const bool below = (path + "/").starts_with(mount->group + "/") && path.find("/..") == std::string::npos;
    // A group outside the mounted one cannot be looked at: the mounted one is the nearest that can.
    std::string group = below ? path.substr(mount->group.size()) : "";
    while (!group.empty() && group.back() == '/') group.pop_back();
    for (bool own = true;; own = false) {
        const std::string folder = root + mount->point + group, name = mount->group + group;
        if (own || unified || !alone(folder))
            add_group(folder, name.empty() ? "/" : name, unified ? version2 : version1, limits);
        if (group.empty()) return;
        group.erase(group.rfind('/'));
    }
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const std::string& root) {
    std::vector<MemoryLimit> limits;
    add_node(root, limits);
    add_of_process(root, "Max address space", "VmSize:", "ulimit -v", true, limits);
    add_of_process(root, "Max data size", "VmData:", "ulimit -d", false, limits);
    // "4:memory:/slurm/job_7", or "0::/slurm/job_7"
    for (const std::string& line : lines_of(root + "/proc/self/cgroup")) {
        const size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const bool unified = line.starts_with("0::");
        if (unified || contains(split(controllers, ','), "memory"))
            add_groups(root, line.substr(second + 1), unified, limits);
    }
    return limits;
}

}  // namespace convoy
