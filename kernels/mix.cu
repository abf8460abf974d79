// Draws how the images of a batch are mixed, for the kernels that read them next. One thread per
// image.
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"
#include "kernels/samples.cuh"

namespace convoy::kernels {
namespace {

__global__ void __launch_bounds__(block_threads)
    draw_each(Samples s, Augment augment, uint64_t seed, int count, int h, int w, Mix* mixes, MixedLabels mixed) {
    const int n = int(global_index());
    if (n >= count) return;
    const Mix mix = draw_mix(augment, h, w, seed, s.epoch(), uint32_t(s.sample(n)));
    mixes[n] = mix;
    mixed.partners[n] = s.label(n + 1, s.sample(n + 1));
    mixed.shares[n] = mix.share;
}

}  // namespace

void draw_mixes(const Gather& g, Mix* mixes, cudaStream_t stream) {
    const Shape out = g.x.shape;
    if (out.n == 0) return;
    launch(draw_each, dim3(blocks_for(out.n)), dim3(block_threads), 0, stream, Samples(g), g.augment, g.seed, out.n,
           out.h, out.w, mixes, g.mixed);
}

}  // namespace convoy::kernels
