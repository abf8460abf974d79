// The optimizer and look-ahead, in one launch over the arena each. A block takes a chunk of the
// arena and finds the segments in it. Four elements are processed at a time; they never belong to
// two segments. New weights are written to the arena and, rounded, to the padded copies.
#include "kernels/elements.cuh"
#include "kernels/kernels.h"
#include "kernels/launch.cuh"

namespace convoy::kernels {
namespace {

constexpr int quad = 4, quads = 4;                       // elements per access, and accesses per thread
constexpr int64_t chunk = block_threads * quad * quads;  // elements per block

/// Returns the last of segments [low, high) that begins at or before `at`; low if none does.
__device__ int segment_at(const Segment* segments, int low, int high, int64_t at) {
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (segments[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/// Calls body(segment, i) for this thread's elements i ... i + 3 that lie in a segment.
template <class Body> __device__ void each_quad(const Segment* segments, int count, Body body) {
    const int64_t begin = int64_t(blockIdx.x) * chunk;
    const int first = segment_at(segments, 0, count, begin),
              last = segment_at(segments, first, count, begin + chunk - 1);
    for (int k = 0; k < quads; ++k) {
        const int64_t i = begin + (int64_t(k) * block_threads + threadIdx.x) * quad;
        const Segment& s = segments[segment_at(segments, first, last + 1, i)];
        if (i >= s.begin && i < s.end) body(s, i);
    }
}

template <class T> __device__ void write_copy(const Segment& s, int64_t i, const float (&w)[quad]) {
    T* copy = static_cast<T*>(s.copy);
    const uint32_t element = uint32_t(i - s.begin), channels = uint32_t(s.channels), stored = uint32_t(s.stored);
    const bool dense = channels == stored;
    if (element + quad <= s.count && (dense || (channels % quad == 0 && stored % quad == 0)))
        return store(w, copy + (dense ? element : int64_t(element / channels) * stored + element % channels));
    for (uint32_t k = 0; k < quad && element + k < s.count; ++k)
        copy[int64_t((element + k) / channels) * stored + (element + k) % channels] = from_float<T>(w[k]);
}

__device__ void write_copy(const Segment& s, int64_t i, const float (&w)[quad]) {
    if (!s.copy) return;
    if (s.copy_type == DType::bf16)
        write_copy<__nv_bfloat16>(s, i, w);
    else if (s.copy_type == DType::f16)
        write_copy<__half>(s, i, w);
    else
        write_copy<float>(s, i, w);
}

struct Rule {
    OptimizerSpec spec;
    float *weights, *first, *second;  // second: for Adam
    const float *gradients, *learning_rates;
    const Counters* counters;
    const LossScale* loss_scale;
};

__global__ void __launch_bounds__(block_threads) update_weights(Rule r, const Segment* segments, int count) {
    if (r.loss_scale && !r.loss_scale->finite) return;
    const int64_t step = r.counters->step;
    const float rate = r.learning_rates[step], unscale = r.loss_scale ? 1 / r.loss_scale->scale : 1.0f;
    const bool adam = r.spec.kind == OptimizerSpec::adam;
    float* corrections = shared_memory<float>();
    if (adam) {
        if (threadIdx.x == 0) {
            corrections[0] = float(1 - pow(double(r.spec.beta1), double(step + 1)));
            corrections[1] = float(sqrt(1 - pow(double(r.spec.beta2), double(step + 1))));
        }
        __syncthreads();
    }
    each_quad(segments, count, [&](const Segment& s, int64_t i) {
        if (step >= s.steps) return;
        float w[quad], g[quad], m[quad], v[quad];
        load(r.weights + i, w);
        if (s.direction) {
            load(s.direction + (i - s.begin), m);
            for (int k = 0; k < quad; ++k) w[k] = *s.rescale * w[k] - rate * s.learning_rate * m[k];
            store(w, r.weights + i);
            return write_copy(s, i, w);
        }
        load(r.gradients + i, g);
        load(r.first + i, m);
        if (adam) load(r.second + i, v);
        for (int k = 0; k < quad; ++k) {
            if (adam)
                adam_update(r.spec, rate * s.learning_rate, s.weight_decay, corrections[0], corrections[1],
                            g[k] * unscale, w[k], m[k], v[k]);
            else
                sgd_update(r.spec, rate * s.learning_rate, s.weight_decay, g[k] * unscale, w[k], m[k]);
        }
        store(w, r.weights + i);
        store(m, r.first + i);
        if (adam) store(v, r.second + i);
        write_copy(s, i, w);
    });
}

__global__ void __launch_bounds__(block_threads)
    look_ahead_weights(float* weights, float* slow, const Segment* segments, int count, const float* decays,
                       const Counters* counters, const BatchStats* stats) {
    const float decay = decays[counters->step + 1];
    if (decay < 0 || (stats && stats->skipped > 0)) return;
    each_quad(segments, count, [&](const Segment& s, int64_t i) {
        float w[quad], average[quad];
        load(weights + i, w);
        load(slow + i, average);
        for (int k = 0; k < quad; ++k) look_ahead_update(decay, w[k], average[k]);
        store(w, weights + i);
        store(average, slow + i);
        write_copy(s, i, w);
    });
}

dim3 chunks_of(size_t count) { return dim3(blocks_for(int64_t(count), int(chunk))); }

}  // namespace

void update(const Update& u, const Segment* segments, int segment_count, const LossScale* loss_scale,
            cudaStream_t stream) {
    require(u.count % quad == 0 && aligned16({u.weights, u.gradients, u.state}), "optimizer: an arena is not aligned");
    if (segment_count == 0) return;
    const Rule rule{u.spec,      u.weights,        u.state,    u.state + u.count,
                    u.gradients, u.learning_rates, u.counters, loss_scale};
    launch(update_weights, chunks_of(u.count), dim3(block_threads), 2 * sizeof(float), stream, rule, segments,
           segment_count);
}

void look_ahead(float* w, float* slow, const Segment* segments, int segment_count, size_t count, const float* decays,
                const Counters* counters, const BatchStats* stats, cudaStream_t stream) {
    require(count % quad == 0 && aligned16({w, slow}), "look-ahead: an arena is not aligned");
    if (segment_count == 0) return;
    launch(look_ahead_weights, chunks_of(count), dim3(block_threads), 0, stream, w, slow, segments, segment_count,
           decays, counters, stats);
}

}  // namespace convoy::kernels
