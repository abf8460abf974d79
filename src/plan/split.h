// How samples are dealt to ranks and epochs to steps.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/philox.h"

namespace convoy {

/// A contiguous share: `count` items from `first` on.
struct Share {
    int64_t first, count;
};

/// Splits n items over `parts` as evenly as possible; the first n % parts shares are one larger.
inline Share share_of(int64_t n, int64_t parts, int64_t index) {
    const int64_t small = n / parts, larger = n % parts;
    return {index * small + std::min(index, larger), small + (index < larger ? 1 : 0)};
}

/// A batch is dealt to logical ranks, and consecutive ones of these to ranks: usually one to each.
struct Dealing {
    int64_t logical, ranks;  ///< at least one logical rank to a rank

    Share logical_of(int64_t rank) const { return share_of(logical, ranks, rank); }
    /// Of a batch of n samples.
    Share samples_of(int64_t n, int64_t rank) const {
        const Share mine = logical_of(rank), first = share_of(n, logical, mine.first),
                    last = share_of(n, logical, mine.first + mine.count - 1);
        return {first.first, last.first + last.count - first.first};
    }
};

/// An epoch of n samples: full global batches, and what is left over (0 if nothing, or if it is
/// dropped).
struct EpochPlan {
    int64_t full_steps, tail;
    int64_t steps() const { return full_steps + (tail > 0 ? 1 : 0); }
};

inline EpochPlan plan_epoch(int64_t samples, int64_t global_batch, bool drop_last) {
    return {samples / global_batch, drop_last ? 0 : samples % global_batch};
}

/// The order of samples in an epoch: Fisher-Yates with counter-based draws, equal on all ranks and
/// backends. `stream`: of several of one purpose.
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
