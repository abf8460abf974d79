// Gradient buckets: slices of the gradient arena, which lies in the order in which backward
// finishes.
#pragma once
#include <cstddef>
#include <vector>

namespace convoy {

/// Elements [begin, end) of the gradient arena; complete once the last of its gradients was
/// written.
struct Bucket {
    size_t begin, end;
};

/// Cuts consecutive gradients (element counts, in backward order) into buckets of at least `target`
/// elements each; a last bucket below a quarter of that joins its neighbour, because its latency
/// would be exposed.
std::vector<Bucket> plan_buckets(const std::vector<size_t>& counts, size_t target);

}  // namespace convoy
