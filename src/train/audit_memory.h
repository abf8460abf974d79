// The device memory of audits (--audit): checksums, and the gradients and running statistics of the
// programs that compute other ranks' shares. So an audit changes nothing that the training uses.
#pragma once
#include <vector>

#include "backend/backend.h"
#include "comm/comm.h"
#include "train/audit_verdict.h"
#include "train/logical_ranks.h"
#include "train/state.h"

namespace convoy {

class AuditMemory {
public:
    /// Allocates the memory for `lanes` lanes. Lanes after the first use the gradient arenas of
    /// `exact`, if it has them. `exact` null: no logical ranks. All arguments must outlive this.
    AuditMemory(Backend&, const State&, const LogicalRanks* exact, int lanes);

    /// Returns the operands of a program in a lane that computes another rank's share.
    Operands operands(int lane) const;
    /// Returns the device address of a share's checksum. `distance`: index in AuditRow::shares.
    uint64_t* share(int distance) const { return static_cast<uint64_t*>(sums_.get()) + distance; }
    /// Appends a launch that sets all checksums to zero. A step begins with it.
    void clear(Tape&) const;
    /// Appends launches that must precede the programs for the rank `distance` places before this
    /// one: they copy the running statistics. If `distance` is 1, one more launch computes the
    /// checksum of the weights.
    void begin(int distance, const Counters*, Tape&) const;
    /// Collective. Waits for the device. Returns the checksums of all ranks.
    std::vector<AuditRow> rows(Comm&) const;

private:
    static constexpr int words = 4;  ///< the checksums of three shares, and of the weights
    Tensor running(int lane) const;

    Backend& backend_;
    const State& state_;
    Buffer sums_, running_;
    std::vector<Buffer> gradients_;  // [lanes] arenas
};

}  // namespace convoy
