// What ops on GPUs hand from forward to backward: of the CUDA backend, and of dry runs for a GPU that is not here.
#pragma once
#include "model/graph.h"

namespace convoy {

/// Bytes, as Backend::saved_bytes.
inline size_t gpu_saved_bytes(const Op& op, const Graph& graph, int batch) {
    if (const auto* bn = std::get_if<BatchNorm>(&op))
        return 2 * sizeof(float) * size_t(graph.values[bn->x].batched(1).c);  // mean, 1 / deviation
    const auto* pool = std::get_if<Pool>(&op);
    return pool && pool->kind == Pool::max ? graph.values[pool->y].batched(batch).count() : 0;
}

}  // namespace convoy
