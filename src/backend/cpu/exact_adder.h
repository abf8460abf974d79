// Adds the gradients of several lanes into one arena of integers. Lanes take turns at its ranges.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "ops/exact_sums.h"

namespace convoy::cpu {

class ExactAdder {
public:
    struct GuardedRange : ExactRange {
        explicit GuardedRange(const ExactRange& where) : ExactRange(where) {}
        std::mutex turn;
        bool empty = true;  ///< no gradients were added in this step yet: the first ones overwrite
    };

    /// Returns the ranges of elements [begin, end), the same objects at every call. Call it before
    /// steps run.
    std::vector<GuardedRange*> ranges(const ExactSums&, size_t begin, size_t end);
    /// Returns all ranges that were requested so far.
    std::vector<GuardedRange*> ranges(const ExactSums&);

    /// Adds one range of an arena of gradients.
    static void add(const ExactSums&, const float* gradients, GuardedRange&);
    /// Writes one range of the gradients from the all-reduced sums, and empties it for the next
    /// step.
    static void take(const ExactSums&, GuardedRange&, float* gradients);

private:
    std::map<const int64_t*, GuardedRange> ranges_;  // key: address of the range's first sum
};

}  // namespace convoy::cpu
