// The logical ranks that this rank computes (--virtual-ranks), and the memory in which their
// gradients are summed exactly. A training then has the same bits on any number of ranks.
// ops/exact_sums.h has an example.
#pragma once
#include <vector>

#include "comm/comm.h"
#include "plan/split.h"
#include "train/program.h"
#include "train/state.h"

namespace convoy {

class LogicalRanks {
public:
    /// Allocates the memory. `state` must have a replica for each logical rank of this rank.
    LogicalRanks(const BatchSplit&, int rank, Backend&, const State&);

    /// Returns the operands and sums of this rank's logical rank `index`, from 0.
    LogicalRank part(int index) const;
    int lanes() const { return sums_.lanes; }  ///< number of lanes; they run at the same time
    /// Returns the memory of the gradients of a lane after the first.
    const Buffer& arena(int lane) const { return arenas_[size_t(lane) - 1]; }
    /// Appends launches that run these tapes, one per logical rank. State's arena then has the
    /// all-reduced gradients.
    void append(const std::vector<Tape>& parts, Tape&);
    /// True if a gradient was too large for its exponent; all ranks then return true. In that case
    /// restores the running statistics from before the step, and the caller must repeat the step.
    bool redo();

    /// Returns the exponents for the next step, [tensors], for checkpoints; equal on all ranks.
    std::vector<int32_t> exponents() const;
    /// Sets the exponents for the next step. Empty: none are known.
    void set_exponents(std::vector<int32_t>);

private:
    Tensor all_running() const;

    Backend& backend_;
    const State& state_;
    const int count_;
    ExactSums sums_;
    Buffer integers_, exponents_, kept_running_;
    std::vector<Buffer> arenas_;  // [lanes - 1] gradients of each lane after the first
};

}  // namespace convoy
