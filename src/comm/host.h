// Describes this host, for the records of measurements.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// (name, text) pairs, with lower-case names.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Returns "os", "kernel", "cpu", "memory", "ip" and "job" (of Slurm, PBS, LSF or Flux; "none"
/// outside). A text is "unknown" if the system does not say. `root` is put before /etc and /proc,
/// for tests.
Facts facts_of_host(const std::string& root = "");

/// Returns the numeric addresses of this host's network interfaces, IPv4 first. Leaves out loopback
/// and link-local addresses.
std::vector<std::string> own_addresses();
/// Returns true if `name`, a name or an address, is this host's. `host` is this host's name.
bool is_this_host(const std::string& name, const std::string& host);

}  // namespace convoy
