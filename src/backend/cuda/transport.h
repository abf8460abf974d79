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

/// Thread blocks, each on a multiprocessor of its own, that NCCL may keep for a sum: NCCL_MAX_CTAS
/// or, if that is not set, 32.
int nccl_blocks();

/// Bytes of a gradient bucket, by the slowest link that its sum crosses: 16 MiB on NVLink and on
/// InfiniBand, else 4. Not measured yet.
size_t bucket_bytes_of(bool several_hosts, bool all_have_nvlink, bool all_use_verbs);

}  // namespace convoy::cuda
