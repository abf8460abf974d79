// Gradient buckets: slices of the gradient arena. The arena holds gradients in the order in which
// backward finishes them.
#pragma once
#include <cstddef>
#include <vector>

namespace convoy {

/// Elements [begin, end) of the gradient arena. The bucket is complete once backward has written
/// its last gradient.
struct Bucket {
    size_t begin, end;
};

/// Cuts consecutive gradients (element counts, in backward order) into buckets of at least `target`
/// elements each. The last bucket may be smaller. If it is below a quarter of `target` it joins its
/// neighbour, because its latency would be exposed.
std::vector<Bucket> cut_buckets(const std::vector<size_t>& counts, size_t target);

}  // namespace convoy
