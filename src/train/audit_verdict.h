// Decides from checksums which rank computed wrong at an audited step. Pure functions.
//
// Example with three ranks. Rank 1 has a wrong weight, so it computes wrong gradients, for its own
// share and for others. Each row has the checksums of one rank:
//
//   rank   weights   own share   share of the rank before   share of the rank before that (vote)
//   0           w         s0                s2                         s1
//   1           x          a                 b                          c
//   2           w         s2                s1                         s0
//
// Before the vote, ranks 0 and 1 disagree about share 0, ranks 1 and 2 about share 1. Two of three
// ranks have the weights w, so rank 1 is wrong. The other ranks agree about every share.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace convoy {

/// The checksums of one rank at an audited step.
struct AuditRow {
    uint64_t weights = 0;  ///< all weights, before the update
    /// checksums of loss and gradients: for this rank's own share, for the share of the rank before
    /// it, and for the share of the rank before that (computed only for a vote)
    std::array<uint64_t, 3> shares{};
};

/// Returns true if ranks disagree. `rows`: those of all ranks, in order, before a vote.
bool disagree(const std::vector<AuditRow>& rows);

/// The numbers that differ between ranks.
enum class AuditFault { weights, gradients };

struct AuditVerdict {
    std::map<int, AuditFault> wrong;  ///< ranks that a majority contradicts
    std::set<int> undecided;          ///< ranks of which at least one is wrong
    AuditFault undecided_about = AuditFault::gradients;

    bool clean() const { return wrong.empty() && undecided.empty(); }
};

/// Returns the ranks that are wrong. `voted`: rows have shares[2]; needs three ranks.
AuditVerdict judge(const std::vector<AuditRow>& rows, bool voted);

/// Describes a verdict that is not clean, without a full stop. `ranks`: "rank 1 on node07 (DEVICE)"
/// for each rank.
std::string text_of(const AuditVerdict&, const std::vector<std::string>& ranks);

}  // namespace convoy
