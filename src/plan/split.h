// Splits a batch over ranks, splits an epoch into steps, and permutes the samples of an epoch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/philox.h"

namespace convoy {

/// A contiguous share: items [first, first + count).
struct Share {
    int64_t first, count;
};

/// Returns share `index` of n items split over `parts` as evenly as possible. The first n % parts
/// shares are one larger.
inline Share share_of(int64_t n, int64_t parts, int64_t index) {
    const int64_t small = n / parts, larger = n % parts;
    return {index * small + std::min(index, larger), small + (index < larger ? 1 : 0)};
}

/// How a batch is split over logical ranks, and logical ranks over ranks. A rank gets consecutive
/// logical ranks, usually one.
struct BatchSplit {
    int64_t logical, ranks;  ///< logical >= ranks

    Share logical_of(int64_t rank) const { return share_of(logical, ranks, rank); }
    /// Returns a rank's share of a batch of n samples.
    Share samples_of(int64_t n, int64_t rank) const {
        const Share mine = logical_of(rank), first = share_of(n, logical, mine.first),
                    last = share_of(n, logical, mine.first + mine.count - 1);
        return {first.first, last.first + last.count - first.first};
    }
};

/// Steps of an epoch: the number of full global batches, and the samples of a smaller last one.
/// `tail` is 0 if no samples are left over, or if they are dropped.
struct EpochSteps {
    int64_t full_steps, tail;
    int64_t steps() const { return full_steps + (tail > 0 ? 1 : 0); }
};

inline EpochSteps steps_of_epoch(int64_t samples, int64_t global_batch, bool drop_last) {
    return {samples / global_batch, drop_last ? 0 : samples % global_batch};
}

/// Returns the order of samples in an epoch. Fisher-Yates with counter-based draws gives the same
/// order on all ranks and backends. `stream` selects one of several permutations for the same
/// purpose.
inline std::vector<int32_t> permutation(int64_t n, uint64_t seed, uint32_t epoch, Purpose purpose = purpose_permutation,
                                        uint32_t stream = 0) {
    std::vector<int32_t> order(n);
    for (int64_t i = 0; i < n; ++i) order[i] = int32_t(i);
    for (int64_t i = n - 1; i > 0; --i) {
        const uint32_t word = philox(seed, uint32_t(i), stream, epoch, purpose).word[0];
        std::swap(order[i], order[uniform_below(word, uint32_t(i + 1))]);
    }
    return order;
}

}  // namespace convoy
