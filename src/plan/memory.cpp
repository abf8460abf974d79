// Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference",
// 2020).
#include "plan/memory.h"

#include <algorithm>
#include <numeric>

namespace convoy {

MemoryLayout lay_out_memory(const std::vector<Lifetime>& buffers) {
    constexpr size_t alignment = 64;  // a cache line, and the width of the largest vector loads
    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });

    MemoryLayout layout;
    layout.offset.assign(buffers.size(), 0);
    std::vector<size_t> placed;  // by rising offset
    for (size_t i : order) {
        const size_t bytes = (buffers[i].bytes + alignment - 1) / alignment * alignment;
        size_t offset = 0;
        for (size_t j : placed) {
            const bool together = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
            if (!together) continue;
            if (offset + bytes <= layout.offset[j]) break;
            offset = std::max(offset, layout.offset[j] + (buffers[j].bytes + alignment - 1) / alignment * alignment);
        }
        layout.offset[i] = offset;
        layout.bytes = std::max(layout.bytes, offset + bytes);
        const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                         [&](size_t o, size_t j) { return o < layout.offset[j]; });
        placed.insert(at, i);
    }
    return layout;
}

}  // namespace convoy
