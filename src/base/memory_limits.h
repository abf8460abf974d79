// The limits of this process's memory: the node's free memory, its control groups (Slurm's and
// containers') and its shell (ulimit). Check them before large allocations, because Linux promises
// more memory than it has and kills the job later.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace convoy {

struct MemoryLimit {
    size_t left = 0;     ///< bytes that can still be taken
    std::string name;    ///< "the limit of 160 MiB of control group /slurm/job_7"
    std::string remedy;  ///< advice for the end of a message: how to raise the limit; empty: impossible
    /// the same text in all processes that share the limit; empty: it applies to this process alone
    std::string group;
    bool shared_counts = true;  ///< false: memory shared by processes does not count
};

/// Returns all limits; empty if the system reports none. `root` is put before /proc and the mount
/// points, for tests.
std::vector<MemoryLimit> memory_limits(const std::string& root = "");

}  // namespace convoy
