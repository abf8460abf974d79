// The control groups (versions 1 and 2) of this process, as Slurm and containers set them. They
// limit memory (memory_limits.h) and processors (cpu_quota.h).
#pragma once
#include <string>
#include <vector>

namespace convoy {

struct ControlGroup {
    std::string folder;    ///< path of its files
    std::string name;      ///< "/slurm/job_7"
    bool unified = false;  ///< true: version 2
};

/// Returns the groups in which `controller` ("memory", "cpu") may limit this process. Each element
/// holds one group and all its ancestors up to the mounted one, innermost first. `root` is put
/// before /proc and the mount points, for tests.
std::vector<std::vector<ControlGroup>> control_groups(const std::string& root, const std::string& controller);

/// Returns a text that identifies the group in every process of a node, even if their paths to it
/// differ.
std::string identity_of(const ControlGroup&);

/// Returns the lines of a file; none if it cannot be read.
std::vector<std::string> lines_of(const std::string& path);

}  // namespace convoy
