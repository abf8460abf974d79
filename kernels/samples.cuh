// The samples of a batch, resident or staged, for all kernels that read one.
#pragma once
#include "ops/records.h"

namespace convoy::kernels {

struct Samples {
    const int32_t *labels, *order;
    const Counters* counters;
    int64_t first, global_batch;
    const StagedBatch* staged;  // null: the images are resident
    int64_t staged_first;

    explicit Samples(const Gather& g)
        : labels(g.staged ? nullptr : g.labels.as<int32_t>()),
          order(g.order),
          counters(g.counters),
          first(g.first),
          global_batch(g.global_batch),
          staged(g.staged),
          staged_first(g.staged_first) {}

    /// Returns the index in the split of image n of the batch. In a mixed batch, its partner is
    /// image n + 1.
    __device__ int64_t sample(int n) const {
        if (staged) return staged->samples[staged_first + n];
        const int64_t in_batch = first + n == global_batch ? 0 : first + n, position = counters->offset + in_batch;
        return order ? order[position] : position;
    }
    __device__ int32_t label(int n, int64_t sample) const {
        return staged ? staged->labels[staged_first + n] : labels[sample];
    }
    /// Returns the place of image n; only for staged batches.
    __device__ const ImagePlace& place(int n) const { return staged->places[staged_first + n]; }
    __device__ uint32_t epoch() const { return uint32_t(counters->epoch); }
};

}  // namespace convoy::kernels
