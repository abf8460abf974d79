// Running statistics that cuDNN wrote into a separate buffer. They are copied to their place only
// if they are finite, because a skipped step must not change them.
#include <cfloat>

#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

/// Copies spans, one block per span.
__global__ void commit_spans(const Span* spans) {
    const Span s = spans[blockIdx.x];
    for (int i = int(threadIdx.x); i < s.count; i += int(blockDim.x))
        if (fabsf(s.from[i]) <= FLT_MAX) s.to[i] = s.from[i];
}

}  // namespace

void commit_finite(const Span* spans, int count, cudaStream_t stream) {
    if (count > 0) launch(commit_spans, dim3(unsigned(count)), dim3(block_threads), 0, stream, spans);
}

}  // namespace convoy::kernels
