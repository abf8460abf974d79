// Reads how a node is equipped and set up from /proc, /sys and /etc, so that nodes can be compared.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/host.h"

namespace convoy {

struct FileSystemSpace {
    double bytes = 0, free = 0;
};
/// Returns the space of the file system at a path; nullopt if it cannot be read.
std::optional<FileSystemSpace> space_at(const std::string& path);

/// The place that node_facts() reads. Tests give a folder with files they made.
struct NodeSource {
    std::string root{};  ///< put before /proc, /sys, /etc and /dev
    std::function<std::optional<FileSystemSpace>(const std::string&)> space = space_at;
};

/// Returns facts_of_host() and, as far as the system reports them: microcode, governor, SMT, cores,
/// NUMA nodes, huge pages, clock source, BIOS, errors of the memory, /dev/shm, limits of control
/// groups, kernel modules, and the state, speed and errors of each network card. A fact that is not
/// known is left out.
Facts node_facts(const NodeSource& = {});

/// Returns the text of a fact; empty if there is none of that name.
std::string value_of(const Facts&, const std::string& name);

}  // namespace convoy
