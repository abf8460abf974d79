// The control groups that this process is in, of both versions: those of Slurm's jobs and of
// containers. They limit memory (memory_limits.h) and processors (cpu_quota.h).
#pragma once
#include <string>
#include <vector>

namespace convoy {

struct ControlGroup {
    std::string folder;    ///< where its files are
    std::string name;      ///< "/slurm/job_7"
    bool unified = false;  ///< of version 2
};

/// The groups in which `controller` ("memory", "cpu") may limit this process, each with all above
/// it up to the one that is mounted, innermost first. `root` stands before /proc and the mount
/// points, for tests.
std::vector<std::vector<ControlGroup>> control_groups(const std::string& root, const std::string& controller);

/// A text that is equal for the same group in every process of a node, also if they see it by other
/// paths.
std::string identity_of(const ControlGroup&);

/// The lines of a file; none if it cannot be read.
std::vector<std::string> lines_of(const std::string& path);

}  // namespace convoy
