// Colour jitter of the images that a kernel reads. First, one block per image draws the jitter, and
// computes the mean if contrast changes.
#pragma once
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"
#include "ops/jitter.h"

namespace convoy::kernels {

constexpr int jitter_threads = 1024;  // per block: there are few images, and threads wait for memory

/// Writes `jitter`, with its mean over `pixels`, to *to. All threads of a block call it; their
/// number is a power of two. colour(i) returns pixel i of the batch's image before its colours
/// change. sums [threads] is shared memory.
template <class ColourAt>
__device__ void write_jitter(Jitter jitter, int pixels, ColourAt colour, double* sums, Jitter* to) {
    const int thread = int(threadIdx.x);
    double sum = 0;
    if (jitter.contrast != 1)
        for (int i = thread; i < pixels; i += int(blockDim.x)) sum += double(grey(before_contrast(jitter, colour(i))));
    sums[thread] = sum;
    for (int half = int(blockDim.x) / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) sums[thread] += sums[thread + half];
    }
    if (thread > 0) return;
    jitter.mean = float(sums[0] / pixels);
    *to = jitter;
}

/// Returns the grid of blocks that draw jitter: one per image, and one for the last image's
/// partner.
inline dim3 jitter_blocks(const Gather& g, const BatchDraws& drawn) {
    return dim3(unsigned(g.x.shape.n) + (drawn.mixes ? 1 : 0));
}

/// Calls f with both as Constants, so that each kernel contains only the code that its images need.
template <class F> void with_constants(bool mixed, bool jittered, F f) {
    if (mixed && jittered) return f(Constant<true>(), Constant<true>());
    if (mixed) return f(Constant<true>(), Constant<false>());
    if (jittered) return f(Constant<false>(), Constant<true>());
    f(Constant<false>(), Constant<false>());
}

}  // namespace convoy::kernels
