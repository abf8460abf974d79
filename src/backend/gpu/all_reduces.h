// Effects of NCCL's all-reduces on the rest of a program.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace convoy::cuda {

/// Returns the bytes of a gradient bucket, by the slowest link that its all-reduce crosses: 16 MiB
/// on NVLink and InfiniBand, else 4 MiB. The values are not measured yet.
constexpr size_t bucket_bytes_of(bool several_hosts, bool all_have_nvlink, bool all_use_verbs) {
    const bool fast = several_hosts ? all_use_verbs : all_have_nvlink;
    return size_t(fast ? 16 : 4) << 20;
}

/// Returns the thread blocks that NCCL may keep for an all-reduce, each on its own multiprocessor.
/// It is NCCL_MAX_CTAS, or 32 if that is not set.
inline int nccl_blocks() {
    const char* most = std::getenv("NCCL_MAX_CTAS");
    const int blocks = most ? std::atoi(most) : 0;
    return blocks > 0 ? blocks : 32;
}

/// Returns the multiprocessors left over by NCCL's kernels, at least 1.
inline int beside_all_reduces(int multiprocessors) { return std::max(1, multiprocessors - nccl_blocks()); }

}  // namespace convoy::cuda
