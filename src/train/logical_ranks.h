// The logical ranks that this rank computes (--virtual-ranks): where their gradients lie and are
// summed, so that a training is the same bits on any number of ranks.
#pragma once
#include <vector>

#include "comm/comm.h"
#include "plan/split.h"
#include "train/program.h"
#include "train/state.h"

namespace convoy {

class LogicalRanks {
public:
    /// Allocates. `state` has a replica for each logical rank of this rank.
    LogicalRanks(const Dealing&, int rank, Backend&, const State&);

    /// Of one of this rank's, counted from 0.
    LogicalRank part(int index) const;
    int lanes() const { return sums_.lanes; }  ///< that are computed side by side
    /// Appends what runs these tapes, one a logical rank, and then has the gradients of all ranks
    /// in State's arena.
    void append(const std::vector<Tape>& parts, Tape&);
    /// Whether gradients were too large for their exponents, on all ranks alike: the running
    /// statistics are again those before the step, which is to be done once more.
    bool redo();

    /// For checkpoints: of the next step, by tensor; equal on all ranks.
    std::vector<int32_t> exponents() const;
    /// Empty: none are known.
    void set_exponents(std::vector<int32_t>);

private:
    Tensor all_running() const;

    Backend& backend_;
    const State& state_;
    const int count_;
    ExactSums sums_;
    Buffer integers_, exponents_, kept_running_;
    std::vector<Buffer> arenas_;  // of gradients, of each lane after the first
};

}  // namespace convoy
