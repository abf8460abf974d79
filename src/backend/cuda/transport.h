// The transports between GPUs that NCCL reports in its log while it connects.
#pragma once
#include <set>
#include <string>

namespace convoy::cuda {

/// Returns the transports of the channels in NCCL's log, without the numbers of adapters:
/// "P2P/CUMEM", "SHM/direct/direct", "NET/IB/GDRDMA", ….
std::set<std::string> transports_of(const std::string& log);

/// Returns a warning if NCCL uses sockets although verbs ports are up; else empty. `ports`: the
/// result of verbs_ports() (comm/network.h).
std::string socket_warning(const std::string& transports, const std::string& ports);

}  // namespace convoy::cuda
