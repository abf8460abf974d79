#include "plan/buckets.h"

namespace convoy {

std::vector<Bucket> cut_buckets(const std::vector<size_t>& counts, size_t target) {
    std::vector<Bucket> buckets;
    size_t begin = 0, end = 0;
    for (size_t count : counts) {
        end += count;
        if (end - begin < target) continue;
        buckets.push_back({begin, end});
        begin = end;
    }
    if (end == begin) return buckets;
    if (!buckets.empty() && end - begin < target / 4)
        buckets.back().end = end;
    else
        buckets.push_back({begin, end});
    return buckets;
}

}  // namespace convoy
