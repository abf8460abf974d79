// Adds values to a checksum (ops/checksum.h).
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

#include <algorithm>

namespace convoy::kernels {
namespace {

__global__ void __launch_bounds__(block_threads)
    add_checksum(const float* values, int64_t count, int64_t index, unsigned long long* sum, const Counters* counters,
                 int64_t every) {
    if (!is_audited(counters->step, every)) return;
    unsigned long long own = 0;
    for (int64_t i = global_index(); i < count; i += int64_t(gridDim.x) * blockDim.x) {
        const float value = read_from(values + i);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        own += checksum_term(index + i, bits);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) own += __shfl_xor_sync(~0u, own, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

}  // namespace

void checksum(const Checksum& c, cudaStream_t stream) {
    require(c.values.dtype == DType::f32, "checksum: values are f32");
    const auto count = int64_t(c.values.count());
    if (count == 0) return;
    constexpr unsigned most_blocks = 1024;
    launch(add_checksum, dim3(std::min(blocks_for(count), most_blocks)), dim3(block_threads), 0, stream,
           static_cast<const float*>(c.values.data), count, c.index, reinterpret_cast<unsigned long long*>(c.sum),
           c.counters, c.every);
}

}  // namespace convoy::kernels
