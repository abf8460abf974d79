// How fast should all ranks be together? Compares with what `convoy predict` computes from a
// cluster file, and names the term that exceeds its prediction most.
#pragma once
#include "accept/speed.h"

namespace convoy {

/// The measured training of all ranks together.
struct SpeedTogether {
    double images_per_second = 0;
    double data_seconds = 0;  ///< wait for images per step; the mean over ranks
};

/// A prediction, and the seconds per step by which the measurement exceeds it. The terms add up to
/// the difference of the two steps.
struct SpeedExpectation {
    double images_per_second = 0;
    double compute = 0;       ///< the median rank beside the others
    double slowest_rank = 0;  ///< how much longer the slowest rank takes than the median
    double input = 0;         ///< the wait for images, which lie in memory
    double sums = 0;          ///< the rest: all-reduces, and the compute that they slow
};

/// Predicts from the cluster file's time of this model in f32. If the file has none, predicts from
/// the time of the median rank alone.
/// All nodes must have the same number of ranks.
SpeedExpectation expected_speed(const SpeedCase&, const std::vector<RankSpeed>&, const SpeedTogether&, int nodes,
                                const Cluster&);

/// Adds the comparison to a result of compare_speeds(). Warns if less than 90 % are reached.
void add_expectation(const SpeedExpectation&, const SpeedTogether&, const std::string& cluster, LevelResult&);

}  // namespace convoy
