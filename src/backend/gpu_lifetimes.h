// What ops on GPUs keep from forward to backward, and for how long: of the CUDA backend, and of dry
// runs for a GPU that is not here.
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

/// As Backend::last_reader: one kernel may do a batch norm's gradient and that of the pool that
/// feeds it.
inline size_t gpu_last_reader(const Graph& graph, size_t op) {
    const auto* norm = std::get_if<BatchNorm>(&graph.ops[op]);
    if (!norm) return op;
    for (size_t i = 0; i < op; ++i)
        if (output_of(graph.ops[i]) == norm->x) return std::holds_alternative<Pool>(graph.ops[i]) ? i : op;
    return op;
}

}  // namespace convoy
