// What NCCL's sums over ranks mean for the rest of a program.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace convoy::cuda {

/// Bytes of a gradient bucket, by the slowest link that its sum crosses: 16 MiB on NVLink and on
/// InfiniBand, else 4. Not measured yet.
constexpr size_t bucket_bytes_of(bool several_hosts, bool all_have_nvlink, bool all_use_verbs) {
    const bool fast = several_hosts ? all_use_verbs : all_have_nvlink;
    return size_t(fast ? 16 : 4) << 20;
}

/// Thread blocks, each on a multiprocessor of its own, that NCCL may keep for a sum: NCCL_MAX_CTAS
/// or, if that is not set, 32.
inline int nccl_blocks() {
    const char* most = std::getenv("NCCL_MAX_CTAS");
    const int blocks = most ? std::atoi(most) : 0;
    return blocks > 0 ? blocks : 32;
}

/// Of a device's multiprocessors, those that are left to what runs at the same time.
inline int beside_sums(int multiprocessors) { return std::max(1, multiprocessors - nccl_blocks()); }

}  // namespace convoy::cuda
