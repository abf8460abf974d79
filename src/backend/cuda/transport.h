// How NCCL gets from GPU to GPU: what it says of itself while it connects, and what follows from
// that.
#pragma once
#include <set>
#include <string>

namespace convoy::cuda {

/// "P2P/CUMEM", "SHM/direct/direct", "NET/IB/GDRDMA", …: by which the channels of such a log go,
/// without the numbers of adapters.
std::set<std::string> transports_of(const std::string& log);

/// Why sums are slower than they could be; empty if nothing says so. `ports`: of verbs that are up
/// (comm/network.h).
std::string socket_warning(const std::string& transports, const std::string& ports);

}  // namespace convoy::cuda
