// Which rank is wrong, from the checksums of an audited step. Faults are planted in a model of the
// ranks: what a rank computes of a share depends only on the share, unless the rank is faulty.
#include "train/audit_verdict.h"

#include <gtest/gtest.h>

#include <functional>

namespace convoy::test {
namespace {

using Faults = std::set<std::pair<int, int>>;  // (rank, distance) of results that are wrong
constexpr int all_distances = 3;

/// Returns the rows of sound ranks, except for `faults`. Each wrong result is another number.
std::vector<AuditRow> rows_of(int ranks, const Faults& faults, const std::set<int>& wrong_weights = {}) {
    std::vector<AuditRow> rows(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
        rows[size_t(r)].weights = wrong_weights.contains(r) ? 7000u + uint64_t(r) : 7;
        for (int d = 0; d < all_distances; ++d) {
            const bool wrong = faults.contains({r, d}) || wrong_weights.contains(r);
            rows[size_t(r)].shares[size_t(d)] =
                wrong ? uint64_t(1000 + 10 * r + d) : uint64_t((r - d + 2 * ranks) % ranks);
        }
    }
    return rows;
}

Faults always(int rank) { return {{rank, 0}, {rank, 1}, {rank, 2}}; }

std::set<int> ranks_of(const std::map<int, AuditFault>& wrong) {
    std::set<int> ranks;
    for (const auto& [rank, fault] : wrong) ranks.insert(rank);
    return ranks;
}

TEST(AuditVerdict, SoundRanksAgree) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
        const std::vector<AuditRow> rows = rows_of(ranks, {});
        EXPECT_FALSE(disagree(rows)) << ranks;
        EXPECT_TRUE(judge(rows, false).clean()) << ranks;
        if (ranks >= 3) {
            EXPECT_TRUE(judge(rows, true).clean()) << ranks;
        }
    }
}

// A single wrong result, of the own share or of another rank's: two others contradict it.
TEST(AuditVerdict, AThirdRankDecides) {
    for (int ranks = 3; ranks <= 6; ++ranks)
        for (int rank = 0; rank < ranks; ++rank)
            for (int distance = 0; distance < 2; ++distance) {
                const std::vector<AuditRow> rows = rows_of(ranks, {{rank, distance}});
                SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(rank) + ", " +
                             std::to_string(distance));
                EXPECT_TRUE(disagree(rows));
                const AuditVerdict before = judge(rows, false), after = judge(rows, true);
                EXPECT_TRUE(before.wrong.empty());
                const int share = (rank - distance + ranks) % ranks;
                EXPECT_EQ(before.undecided, (std::set<int>{share, (share + 1) % ranks}));
                EXPECT_EQ(after.wrong, (std::map<int, AuditFault>{{rank, AuditFault::gradients}}));
                EXPECT_TRUE(after.undecided.empty());
            }
}

// A wrong result in the vote itself is noticed, too: the two others agree.
TEST(AuditVerdict, AWrongVoteNamesTheVoter) {
    const AuditVerdict verdict = judge(rows_of(3, {{2, 2}}), true);
    EXPECT_EQ(ranks_of(verdict.wrong), std::set<int>{2});
    EXPECT_TRUE(verdict.undecided.empty());
}

// The rank takes part in three shares, its neighbours in two of these each.
TEST(AuditVerdict, ARankThatIsAlwaysWrongIsNamedAndItsNeighboursAreNot) {
    for (int ranks = 3; ranks <= 6; ++ranks)
        for (int rank = 0; rank < ranks; ++rank) {
            const std::vector<AuditRow> rows = rows_of(ranks, always(rank));
            EXPECT_TRUE(disagree(rows));
            const AuditVerdict verdict = judge(rows, true);
            EXPECT_EQ(verdict.wrong, (std::map<int, AuditFault>{{rank, AuditFault::gradients}})) << ranks << rank;
            EXPECT_TRUE(verdict.undecided.empty()) << ranks << rank;
        }
}

TEST(AuditVerdict, WrongWeightsAreNamedAsSuch) {
    for (int ranks = 3; ranks <= 6; ++ranks)
        for (int rank = 0; rank < ranks; ++rank) {
            const std::vector<AuditRow> rows = rows_of(ranks, {}, {rank});
            EXPECT_TRUE(disagree(rows));
            for (const bool voted : {false, true}) {
                const AuditVerdict verdict = judge(rows, voted);
                EXPECT_EQ(verdict.wrong, (std::map<int, AuditFault>{{rank, AuditFault::weights}})) << ranks << rank;
                EXPECT_TRUE(verdict.undecided.empty()) << ranks << rank;
            }
        }
}

// A weight that no gradient depends on.
TEST(AuditVerdict, WrongWeightsAreNoticedWhereGradientsAgree) {
    std::vector<AuditRow> rows = rows_of(3, {});
    rows[1].weights = 8;
    EXPECT_TRUE(disagree(rows));
    EXPECT_EQ(ranks_of(judge(rows, true).wrong), std::set<int>{1});
}

// Three different results of one share: other shares tell which two are wrong.
TEST(AuditVerdict, TwoNeighboursAreNamedIfOthersAreSound) {
    Faults faults = always(1);
    faults.merge(always(2));
    const AuditVerdict verdict = judge(rows_of(6, faults), true);
    EXPECT_EQ(ranks_of(verdict.wrong), (std::set<int>{1, 2}));
    EXPECT_TRUE(verdict.undecided.empty());
}

TEST(AuditVerdict, WrongWeightsOfOneAndWrongGradientsOfAnother) {
    const AuditVerdict verdict = judge(rows_of(6, always(4), {1}), true);
    EXPECT_EQ(verdict.wrong, (std::map<int, AuditFault>{{1, AuditFault::weights}, {4, AuditFault::gradients}}));
    EXPECT_TRUE(verdict.undecided.empty());
}

TEST(AuditVerdict, WithoutAMajorityNobodyIsAccused) {
    for (const Faults& faults : {Faults{{0, 0}}, Faults{{1, 1}}, always(1)}) {
        const AuditVerdict verdict = judge(rows_of(2, faults), false);
        EXPECT_TRUE(verdict.wrong.empty());
        EXPECT_EQ(verdict.undecided, (std::set<int>{0, 1}));
        EXPECT_EQ(verdict.undecided_about, AuditFault::gradients);
    }
    const AuditVerdict weights = judge(rows_of(4, {}, {1, 2}), true);
    EXPECT_TRUE(weights.wrong.empty()) << "two ranks have 7, and each of the others another number: no majority";
    EXPECT_EQ(weights.undecided, (std::set<int>{0, 1, 2, 3}));
    EXPECT_EQ(weights.undecided_about, AuditFault::weights);
    Faults all = always(0);
    all.merge(always(1));
    all.merge(always(2));
    EXPECT_EQ(judge(rows_of(3, all), true).undecided, (std::set<int>{0, 1, 2}));
}

TEST(AuditVerdict, ARankThatIsAloneContradictsItself) {
    const std::vector<AuditRow> rows = rows_of(1, {{0, 1}});
    EXPECT_TRUE(disagree(rows));
    EXPECT_EQ(judge(rows, false).undecided, std::set<int>{0});
}

TEST(AuditVerdict, TheTextNamesRanksAndWhatDiffers) {
    const std::vector<std::string> ranks = {"rank 0 on a", "rank 1 on b", "rank 2 on c"};
    const auto text = [&](int count, const Faults& faults, const std::set<int>& weights) {
        return text_of(judge(rows_of(count, faults, weights), count > 2), ranks);
    };
    EXPECT_EQ(text(3, {}, {1}), "rank 1 on b has other weights than most ranks");
    EXPECT_EQ(text(3, {{2, 0}}, {}),
              "rank 2 on c computed other gradients than two ranks that agree, from the same weights and samples");
    EXPECT_EQ(text(2, {{0, 0}}, {}),
              "rank 0 on a and rank 1 on b computed different gradients from the same weights and samples, and no "
              "majority tells which are right");
    EXPECT_EQ(text(2, {}, {0}),
              "rank 0 on a and rank 1 on b have different weights, and no majority tells which are right");
    EXPECT_EQ(text(1, {{0, 1}}, {}), "rank 0 on a computed different gradients from the same weights and samples");
}

}  // namespace
}  // namespace convoy::test
