// What this host is, as its system describes it: what a record of a measurement needs.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// (name, text) pairs, with lower-case names.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// "os", "kernel", "cpu", "memory", "ip" and "job" (of Slurm, PBS, LSF or Flux; "none" outside).
/// "unknown" is what the system does not say. `root` stands before /etc and /proc, for tests.
Facts facts_of_host(const std::string& root = "");

/// Addresses of this host's network interfaces in digits, IPv4 first; without those of loopback and
/// those that only one link knows.
std::vector<std::string> own_addresses();
/// Whether a name or an address is of this host, whose name is `host`.
bool is_this_host(const std::string& name, const std::string& host);

}  // namespace convoy
