// Sums gradients of logical ranks so that the bits do not depend on the order: as 64-bit integers,
// in a unit per tensor that is a power of two.
//
// In a tensor with the exponent `top`, a gradient g becomes the integer nearest to
//   g * 2^(bits - top), with bits = 62 - ceil(log2(logical ranks)),
// so that a sum over logical ranks cannot overflow. `top` is the exponent of the tensor's largest
// gradient in the step before, plus `headroom`. If a gradient does not fit, all ranks learn of it.
// They compute the step again, with `top` from the exponents that its gradients had. A new training
// computes its first step twice, because it knows no exponents before.
//
// Example: --virtual-ranks 4 on 2 ranks, with a global batch of 4 images. Rank 0 computes logical
// ranks 0 and 1, rank 1 computes 2 and 3, each from one image. So bits = 62 - 2 = 60. A tensor's
// largest gradient was 0.7 in the step before. Its exponent is 0 (0.7 < 2^0), so top = 0 + 8 and
// the unit is 2^(8-60) = 2^-52. One gradient in that tensor:
//
//   logical rank   gradient   integer
//   0                   0.5      2^51
//   1                 2^-25      2^27   rank 0 adds both: 2^51 + 2^27
//   2                 -0.25     -2^50
//   3                 2^-25      2^27   rank 1 adds both: -2^50 + 2^27
//   all-reduce                   2^50 + 2^28, in any order; times 2^-52: 0.25 + 2^-24
//
// Floats that are added in this order give 0.25 + 2^-25, because 0.5 + 2^-25 rounds to 0.5. In
// another order they give 0.25 + 2^-24. A double sum can also depend on the order, if gradients
// span more than its 53 bits. The integer sum is rounded once, to a float.
//
// Suppose that logical rank 2 has a gradient of 300 in this step. Its exponent 9 is above top = 8.
// finalize_exact() sets `redo` on both ranks, and top = 9 + 8 = 17. The trainer then repeats the
// step with a unit of 2^(17-60) = 2^-43.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/host_device.h"

namespace convoy {

/// Exponents are integers. of_zero is below, and not_finite above, the exponents of all numbers.
namespace exponent {
constexpr int32_t of_zero = -1000, not_finite = 1000;
/// log2 of the factor by which a tensor's largest gradient may grow from one step to the next.
constexpr int32_t headroom = 8;
}  // namespace exponent

/// Returns the least t with |g| < 2^t, from a float's bits without the sign. Denormal numbers count
/// as zero. For the largest of several values, pass the largest bits.
CONVOY_HD int32_t exponent_of(uint32_t magnitude) {
    const int32_t biased = int32_t(magnitude >> 23);
    return biased == 255 ? exponent::not_finite : biased == 0 ? exponent::of_zero : biased - 126;
}

/// Returns a tensor's `top` for the next step, if this step's largest exponent was `seen`.
CONVOY_HD int32_t next_top(int32_t top, int32_t seen) {
    return seen == exponent::of_zero || seen == exponent::not_finite ? top : seen + exponent::headroom;
}

/// Returns 2^n, for -1022 <= n <= 1023.
CONVOY_HD double power_of_two(int n) {
    const uint64_t bits = uint64_t(n + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/// Consecutive elements of one tensor in the gradient arena.
struct ExactRange {
    int64_t begin, end;
    int32_t tensor;
    bool operator==(const ExactRange&) const = default;
};

/// The sums of a training. Pointers are to the device. BatchStats counts as the first tensor.
struct ExactSums {
    int64_t* sums;             ///< [count], at the offsets of the gradient arena; zero before the first step
    int32_t* tops;             ///< [tensors]: exponents of this step; with of_zero, only zeros fit
    int32_t* seen;             ///< [tensors]: largest exponent accumulated; of_zero between steps
    int32_t* redo;             ///< [1]: 1 if the last step's gradients did not fit
    std::vector<size_t> ends;  ///< [tensors], on the host: where each tensor ends in the arena, ascending
    int bits;                  ///< 62 - ceil(log2(logical ranks))
    int lanes;                 ///< lanes that add to a bucket before its all-reduce

    size_t count() const { return ends.back(); }
    /// Splits elements [begin, end) into ranges of one tensor that cross no multiple of `stripe`.
    std::vector<ExactRange> ranges(size_t begin, size_t end, size_t stripe) const {
        std::vector<ExactRange> ranges;
        for (size_t tensor = 0; begin < end; begin = size_t(ranges.back().end)) {
            while (ends[tensor] <= begin) ++tensor;
            const size_t until = std::min({end, ends[tensor], (begin / stripe + 1) * stripe});
            ranges.push_back({int64_t(begin), int64_t(until), int32_t(tensor)});
        }
        return ranges;
    }
    /// Returns the factor that converts gradients to integers; unit() returns its inverse. Both
    /// return 0 if `top` is of_zero, because then only zeros fit.
    CONVOY_HD static double scale(int bits, int32_t top) {
        return top == exponent::of_zero ? 0.0 : power_of_two(bits - top);
    }
    CONVOY_HD static double unit(int bits, int32_t top) {
        return top == exponent::of_zero ? 0.0 : power_of_two(top - bits);
    }
};

}  // namespace convoy
