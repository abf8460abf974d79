// What keeps this process from taking more memory: the node's free memory, limits of its control
// groups (Slurm's and containers'), and of its shell. Asked before large allocations: Linux
// promises more than it has, and kills the job later.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace convoy {

struct MemoryLimit {
    size_t left = 0;     ///< bytes that can still be taken
    std::string name;    ///< "the limit of 160 MiB of control group /slurm/job_7"
    std::string remedy;  ///< how to lift it, for the end of a message; empty: there is no way
    /// the same text in all processes that share the limit; empty: this one has it to itself
    std::string group;
    bool shared_counts = true;  ///< whether memory that processes share counts
};

/// Every limit there is; none where the system tells nothing. `root` stands before /proc and the
/// mount points, for tests.
std::vector<MemoryLimit> memory_limits(const std::string& root = "");

}  // namespace convoy
