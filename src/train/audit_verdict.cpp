#include "train/audit_verdict.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace convoy {
namespace {

/// A rank, and the checksum that it computed of a share.
using Witness = std::pair<int, uint64_t>;

/// Returns the ranks that computed a share, without those that are known to be wrong. If the job
/// has one rank, that rank computed its share twice and occurs twice.
std::vector<Witness> witnesses(const std::vector<AuditRow>& rows, size_t share, bool voted, const AuditVerdict& known) {
    std::vector<Witness> all;
    for (size_t distance = 0; distance < (voted ? 3u : 2u); ++distance) {
        const size_t rank = (share + distance) % rows.size();
        if (!known.wrong.contains(int(rank))) all.emplace_back(int(rank), rows[rank].shares[distance]);
    }
    return all;
}

/// Returns the index of the witness that two others contradict; -1 if there is none.
int outvoted(const std::vector<Witness>& w) {
    if (w.size() < 3) return -1;
    for (int i = 0; i < 3; ++i) {
        const uint64_t others = w[size_t(i + 1) % 3].second;
        if (others == w[size_t(i + 2) % 3].second && others != w[size_t(i)].second) return i;
    }
    return -1;
}

void judge_weights(const std::vector<AuditRow>& rows, AuditVerdict& verdict) {
    for (const AuditRow& row : rows) {
        const auto equal = std::ranges::count(rows, row.weights, &AuditRow::weights);
        if (2 * size_t(equal) <= rows.size()) continue;
        for (size_t r = 0; r < rows.size(); ++r)
            if (rows[r].weights != row.weights) verdict.wrong[int(r)] = AuditFault::weights;
        return;
    }
    for (size_t r = 0; r < rows.size(); ++r) verdict.undecided.insert(int(r));
    verdict.undecided_about = AuditFault::weights;
}

std::string listed(const std::set<int>& some, const std::vector<std::string>& ranks) {
    std::string text;
    for (auto rank = some.begin(); rank != some.end(); ++rank)
        text += (rank == some.begin() ? "" : std::next(rank) == some.end() ? " and " : ", ") + ranks.at(size_t(*rank));
    return text;
}

}  // namespace

bool disagree(const std::vector<AuditRow>& rows) {
    for (size_t r = 0; r < rows.size(); ++r)
        if (rows[r].weights != rows[0].weights || rows[r].shares[0] != rows[(r + 1) % rows.size()].shares[1])
            return true;
    return false;
}

AuditVerdict judge(const std::vector<AuditRow>& rows, bool voted) {
    AuditVerdict verdict;
    judge_weights(rows, verdict);
    if (!verdict.undecided.empty()) return verdict;  // gradients of different weights differ anyway
    // A rank that one share proves wrong is no witness for the others, so this repeats.
    for (bool found = true; found;) {
        found = false;
        for (size_t share = 0; share < rows.size(); ++share) {
            const std::vector<Witness> w = witnesses(rows, share, voted, verdict);
            const int wrong = outvoted(w);
            if (wrong < 0) continue;
            verdict.wrong[w[size_t(wrong)].first] = AuditFault::gradients;
            found = true;
        }
    }
    for (size_t share = 0; share < rows.size(); ++share) {
        const std::vector<Witness> w = witnesses(rows, share, voted, verdict);
        if (std::ranges::all_of(w, [&](const Witness& one) { return one.second == w[0].second; })) continue;
        for (const Witness& one : w) verdict.undecided.insert(one.first);
    }
    return verdict;
}

std::string text_of(const AuditVerdict& verdict, const std::vector<std::string>& ranks) {
    std::string text;
    for (const auto& [rank, fault] : verdict.wrong)
        text += (text.empty() ? "" : "; ") + ranks.at(size_t(rank)) +
                (fault == AuditFault::weights
                     ? " has other weights than most ranks"
                     : " computed other gradients than two ranks that agree, from the same weights and samples");
    if (verdict.undecided.empty()) return text;
    text += (text.empty() ? "" : "; ") + listed(verdict.undecided, ranks);
    if (verdict.undecided_about == AuditFault::weights)
        return text + " have different weights, and no majority tells which are right";
    text += " computed different gradients from the same weights and samples";
    return verdict.undecided.size() == 1 ? text : text + ", and no majority tells which are right";
}

}  // namespace convoy
