// Colour jitter of the images that a kernel reads. One block an image draws it first, and where
// contrast changes computes the mean that contrast needs. None of it has run on a GPU yet, only on
// the emulated device.
#pragma once
#include "backend/jitter.h"
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {

constexpr int jitter_threads = 1024;  // of a block: images are few, and a thread waits for memory

/// By all threads of a block, a power of two: *to becomes `jitter` with its mean over `pixels`.
/// colour(i): what the batch shows in pixel i before its colours change. sums [threads]: shared.
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

/// Blocks that draw jitter: one an image, and one for the partner of the last.
inline dim3 jitter_blocks(const Gather& g, const BatchDraws& drawn) {
    return dim3(unsigned(g.x.shape.n) + (drawn.mixes ? 1 : 0));
}

/// Calls f with both as Constants: kernels have the code of what happens to images alone.
template <class F> void with_constants(bool mixed, bool jittered, F f) {
    if (mixed && jittered) return f(Constant<true>(), Constant<true>());
    if (mixed) return f(Constant<true>(), Constant<false>());
    if (jittered) return f(Constant<false>(), Constant<true>());
    f(Constant<false>(), Constant<false>());
}

}  // namespace convoy::kernels
