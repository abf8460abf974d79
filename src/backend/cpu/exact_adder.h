// Adds gradients of several lanes into one arena of integers. Lanes take turns at stripes of it.
#pragma once
#include <deque>
#include <mutex>
#include <vector>

#include "backend/exact_sums.h"

namespace convoy::cpu {

class ExactAdder {
public:
    /// Consecutive elements of one tensor and one stripe.
    struct Piece {
        size_t tensor, begin, end;
    };
    static constexpr size_t stripe = size_t(1) << 14;  ///< elements
    static std::vector<Piece> pieces_of(const ExactSums&, size_t begin, size_t end);

    /// Before lanes add: room for arenas of so many elements.
    void reserve(size_t count);
    /// Adds a piece of an arena of gradients.
    void add(const ExactSums&, const float* gradients, const Piece&);

private:
    std::deque<std::mutex> turns_;  // by stripe
};

}  // namespace convoy::cpu
