// Adds gradients of several lanes into one arena of integers. Lanes take turns at pieces of it.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "backend/exact_sums.h"

namespace convoy::cpu {

class ExactAdder {
public:
    struct Piece : ExactPiece {
        explicit Piece(const ExactPiece& where) : ExactPiece(where) {}
        std::mutex turn;
        bool empty = true;  ///< in this step: the first gradients are written, not added
    };

    /// Of elements [begin, end), the same objects at every call. Before steps run.
    std::vector<Piece*> pieces(const ExactSums&, size_t begin, size_t end);
    /// All that were asked for so far.
    std::vector<Piece*> pieces(const ExactSums&);

    /// Adds a piece of an arena of gradients.
    static void add(const ExactSums&, const float* gradients, Piece&);
    /// Writes it, from sums over ranks, and has it empty for the next step.
    static void take(const ExactSums&, Piece&, float* gradients);

private:
    std::map<const int64_t*, Piece> pieces_;  // by where their sums begin
};

}  // namespace convoy::cpu
