#include "base/control_groups.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "base/text.h"

namespace convoy {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

/// The mount point of a hierarchy of control groups, and the group that is mounted there.
struct Mount {
    std::string point, group;
};

/// Finds the mount of a controller (version 1), or of the unified hierarchy (version 2), in
/// /proc/self/mountinfo.
std::optional<Mount> mount_of(const std::string& root, const std::string& controller, bool unified) {
    for (const std::string& line : lines_of(root + "/proc/self/mountinfo")) {
        const size_t dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        const std::vector<std::string> mount = split(line, ' '), type = split(line.substr(dash + 3), ' ');
        if (mount.size() < 5 || type.size() < 3) continue;
        if (unified ? type[0] == "cgroup2" : type[0] == "cgroup" && contains(split(type[2], ','), controller))
            return Mount{mount[4], mount[3] == "/" ? "" : mount[3]};
    }
    return std::nullopt;
}

/// Returns a group and its ancestors, up to the one that is mounted.
std::vector<ControlGroup> groups_up_from(const std::string& root, const Mount& mount, const std::string& path,
                                         bool unified) {
    const bool below = (path + "/").starts_with(mount.group + "/") && path.find("/..") == std::string::npos;
    // The files of a group outside the mounted one are out of reach; use the mounted one instead.
    std::string group = below ? path.substr(mount.group.size()) : "";
    while (!group.empty() && group.back() == '/') group.pop_back();
    std::vector<ControlGroup> groups;
    while (true) {
        const std::string name = mount.group + group;
        groups.push_back({root + mount.point + group, name.empty() ? "/" : name, unified});
        if (group.empty()) return groups;
        group.erase(group.rfind('/'));
    }
}

}  // namespace

std::vector<std::string> lines_of(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

std::vector<std::vector<ControlGroup>> control_groups(const std::string& root, const std::string& controller) {
    std::vector<std::vector<ControlGroup>> all;
    // "4:memory:/slurm/job_7", or "0::/slurm/job_7"
    for (const std::string& line : lines_of(root + "/proc/self/cgroup")) {
        const size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const bool unified = line.starts_with("0::");
        if (!unified && !contains(split(line.substr(first + 1, second - first - 1), ','), controller)) continue;
        if (const auto mount = mount_of(root, controller, unified))
            all.push_back(groups_up_from(root, *mount, line.substr(second + 1), unified));
    }
    return all;
}

std::string identity_of(const ControlGroup& group) {
    struct stat s{};
    if (::stat(group.folder.c_str(), &s) != 0) return group.folder;
    return "cgroup " + std::to_string(s.st_dev) + ":" + std::to_string(s.st_ino);
}

}  // namespace convoy
