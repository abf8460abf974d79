// Dynamic loss scaling on the device. The host learns of a skipped update only when it reads the
// state.
#include <cfloat>

#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

constexpr int per_thread = 8;  // packs per thread

template <class T, int V>
__global__ void __launch_bounds__(block_threads) find_not_finite(const T* gradients, int64_t packs, LossScale* state) {
    bool finite = true;
    for (int64_t i = global_index(); i < packs; i += int64_t(gridDim.x) * blockDim.x) {
        float g[V];
        load(gradients + i * V, g);
        for (int k = 0; k < V; ++k) finite = finite && fabsf(g[k]) <= FLT_MAX;
    }
    if (!finite) state->finite = 0;  // all writers write the same value
}

__global__ void decide(LossScale* state, BatchStats* stats, bool latch, bool scaled) {
    const bool latched = latch && stats->skipped > 0, loss_finite = fabsf(stats->loss_sum) <= FLT_MAX;
    if (latched || !loss_finite) state->finite = 0;
    // An overflow of scaled gradients asks for a lower scale. It is an error only if the scale
    // cannot fall any further.
    const bool expected = scaled && !latched && loss_finite && state->scale > 1;
    stats->skipped = state->finite || expected ? 0.0f : 1.0f;
}

__global__ void adjust(LossScale* state, int growth_interval) {
    if (growth_interval == 0) {
        if (!state->finite) ++state->skipped;
    } else if (!state->finite) {
        state->scale *= 0.5f;
        state->good_steps = 0;
        ++state->skipped;
    } else if (++state->good_steps == growth_interval) {
        state->scale = fminf(2 * state->scale, 0x1p40f);  // an infinite scale would stay infinite
        state->good_steps = 0;
    }
    state->finite = 1;
}

}  // namespace

void check_finite(const float* gradients, size_t count, LossScale* state, cudaStream_t stream) {
    if (count == 0) return;
    with_layout(DType::f32, int64_t(count), {gradients}, [&](auto t, auto v) {
        using T = decltype(t);
        if constexpr (std::is_same_v<T, float>)
            launch(find_not_finite<T, v>, dim3(blocks_for(int64_t(count) / v, block_threads * per_thread)),
                   dim3(block_threads), 0, stream, gradients, int64_t(count) / v, state);
    });
}

void decide_update(LossScale* state, BatchStats* stats, bool latch, bool scaled, cudaStream_t stream) {
    launch(decide, dim3(1), dim3(1), 0, stream, state, stats, latch, scaled);
}

void adjust_loss_scale(LossScale* state, int growth_interval, cudaStream_t stream) {
    launch(adjust, dim3(1), dim3(1), 0, stream, state, growth_interval);
}

}  // namespace convoy::kernels
