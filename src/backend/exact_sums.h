// Sums of gradients that are the same bits in whatever order they are taken: as 64-bit integers,
// each tensor's in units of its own, a power of two.
//
// A gradient g of a tensor with the exponent `top` becomes the integer nearest to
// g * 2^(bits - top), where 2^bits values of logical ranks cannot overflow: bits = 62 - ceil(log2
// ranks). The exponent is what the largest gradient of the step before had, plus `headroom`. So
// with 32 logical ranks every addend keeps all 24 bits of a float down to 2^-25 of the tensor's
// largest value, more than a sum in float or (of its carries) in double does, and smaller ones are
// rounded to 2^-49 of it. A sum is rounded once more, to a float. What does not fit is seen by all
// ranks, and the step is computed again with the exponents that it showed.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/host_device.h"

namespace convoy {

/// Exponents. of_zero is below all others, of_nothing above those of all numbers.
namespace exponent {
constexpr int32_t of_zero = -1000, not_finite = 1000;
/// A tensor's gradients may grow by 2^headroom from one step to the next.
constexpr int32_t headroom = 8;
}  // namespace exponent

/// Least t with |g| < 2^t, of a float's bits without the sign; denormal numbers count as zero. The
/// largest of several values is that of the largest bits.
CONVOY_HD int32_t exponent_of(uint32_t magnitude) {
    const int32_t biased = int32_t(magnitude >> 23);
    return biased == 255 ? exponent::not_finite : biased == 0 ? exponent::of_zero : biased - 126;
}

/// The exponent of the next step's tensor, if this step's largest gradient had `seen`.
CONVOY_HD int32_t next_top(int32_t top, int32_t seen) {
    return seen == exponent::of_zero || seen == exponent::not_finite ? top : seen + exponent::headroom;
}

/// 2^n, -1022 <= n <= 1023.
CONVOY_HD double power_of_two(int n) {
    const uint64_t bits = uint64_t(n + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/// Consecutive elements of one tensor of the gradient arena.
struct ExactPiece {
    int64_t begin, end;
    int32_t tensor;
    bool operator==(const ExactPiece&) const = default;
};

/// Where the sums of a training lie. Pointers are to the device.
struct ExactSums {
    int64_t* sums;             ///< [count], at the offsets of the gradient arena; zero before the first step
    int32_t* tops;             ///< [tensors]: exponents of this step; of_zero: only zeros fit
    int32_t* seen;             ///< [tensors]: largest exponent of a deposit; of_zero between steps
    int32_t* redo;             ///< [1]: whether the last step's gradients did not fit
    std::vector<size_t> ends;  ///< host, [tensors]: where each ends in the arena, in order
    int bits;                  ///< see above
    int lanes;                 ///< that deposit a bucket before it is summed over ranks

    size_t count() const { return ends.back(); }
    /// Elements [begin, end), in pieces that no multiple of `stripe` cuts.
    std::vector<ExactPiece> pieces(size_t begin, size_t end, size_t stripe) const {
        std::vector<ExactPiece> pieces;
        for (size_t tensor = 0; begin < end; begin = size_t(pieces.back().end)) {
            while (ends[tensor] <= begin) ++tensor;
            const size_t until = std::min({end, ends[tensor], (begin / stripe + 1) * stripe});
            pieces.push_back({int64_t(begin), int64_t(until), int32_t(tensor)});
        }
        return pieces;
    }
    /// What to multiply gradients with, and (its inverse) sums. Nothing fits an exponent of_zero.
    CONVOY_HD static double scale(int bits, int32_t top) {
        return top == exponent::of_zero ? 0.0 : power_of_two(bits - top);
    }
    CONVOY_HD static double unit(int bits, int32_t top) {
        return top == exponent::of_zero ? 0.0 : power_of_two(top - bits);
    }
};

}  // namespace convoy
