// Checksums of gradients and weights (--audit). A checksum is the sum of a hash of each element's
// index and bits. Integers have the same sum in any order, so threads, lanes and devices may add
// whenever they like.
#pragma once
#include <cstdint>

#include "base/host_device.h"
#include "ops/records.h"

namespace convoy {

/// Returns true if a step, counted from 0, is audited: every N-th one. `every` 0: none is.
CONVOY_HD bool is_audited(int64_t step, int64_t every) { return every > 0 && (step + 1) % every == 0; }

/// Returns the term of one element: the finalizer of SplitMix64. For indices below 2^32 it is a
/// bijection of index and bits, so that a change of one element always changes the sum.
CONVOY_HD uint64_t checksum_term(int64_t index, uint32_t bits) {
    uint64_t z = uint64_t(index) << 32 | bits;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/// The operands of a launch that adds f32 values to a checksum. Pointers are to the device.
struct Checksum {
    Tensor values;  ///< f32, dense
    int64_t index;  ///< the index of the first value
    uint64_t* sum;  ///< the checksum to which the launch adds
    const Counters* counters;
    int64_t every;  ///< the launch does nothing in steps that are not audited; 1: it always adds
};

}  // namespace convoy
