// Adds the gradients of several lanes into one arena of integers. Lanes take turns at its pieces.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "ops/exact_sums.h"

namespace convoy::cpu {

class ExactAdder {
public:
    struct Piece : ExactPiece {
        explicit Piece(const ExactPiece& where) : ExactPiece(where) {}
        std::mutex turn;
        bool empty = true;  ///< no gradients were added in this step yet: the first ones overwrite
    };

    /// Returns the pieces of elements [begin, end), the same objects at every call. Call it before
    /// steps run.
    std::vector<Piece*> pieces(const ExactSums&, size_t begin, size_t end);
    /// Returns all pieces that were requested so far.
    std::vector<Piece*> pieces(const ExactSums&);

    /// Adds one piece of an arena of gradients.
    static void add(const ExactSums&, const float* gradients, Piece&);
    /// Writes one piece of the gradients from the all-reduced sums, and empties it for the next
    /// step.
    static void take(const ExactSums&, Piece&, float* gradients);

private:
    std::map<const int64_t*, Piece> pieces_;  // key: address of the piece's first sum
};

}  // namespace convoy::cpu
