// Are all-reduces right, and is each link as fast as the others? All ranks reduce together, then
// each node alone, then every pair of nodes. A pair that is slow while its nodes are fast with
// others has a bad link; a node that is slow with all others, or most, has a bad network card.
#pragma once
#include "accept/devices.h"
#include "accept/verdict.h"
#include "plan/cluster.h"

namespace convoy {

/// The measured all-reduces of nodes. Bandwidths are as busbw of nccl-tests [bytes/s].
struct NodeSums {
    std::vector<std::string> hosts;          ///< by node
    std::vector<double> inside;              ///< by node; 0: one rank
    std::vector<std::vector<double>> pairs;  ///< [node][node], symmetric; 0 on the diagonal
    double all = 0;                          ///< over all ranks; 0: one rank
    std::vector<std::string> wrong{};        ///< by rank: what was wrong with a sum; empty: right
    /// (bytes, bandwidth) over all ranks, by rising size
    std::vector<std::pair<size_t, double>> by_size{};
};

/// The bandwidths that a cluster file predicts [bytes/s]; 0 or empty: nothing.
struct ExpectedSums {
    std::string cluster;  ///< its name
    double inside = 0, pair = 0, all = 0;
    std::vector<std::pair<size_t, double>> by_size{};  ///< the sizes of NodeSums
};
/// Returns the predictions for these nodes. Those of CPU ranks need an all-reduce-table in the
/// file, because the model is NCCL's.
ExpectedSums expected_sums(const Cluster&, const NodeSums&, size_t bytes, int ranks_per_node, bool gpu);

/// Finds slow nodes, slow pairs and wrong sums.
LevelResult judge_sums(const NodeSums&, size_t bytes, const ExpectedSums& = {});

/// Returns the rounds of a tournament of `n` players: each round pairs all players (one waits if
/// `n` is odd), and each pair meets once.
std::vector<std::vector<std::pair<int, int>>> rounds_of(int n);

/// Runs the level with all-reduces of `bytes`; all ranks together also reduce smaller messages.
/// `cluster`: to compare with; null: none. Collective; the result is the same on every rank.
LevelResult sums_level(Comm& world, const DeviceChoice&, size_t bytes, int iterations,
                       const Cluster* cluster = nullptr);

}  // namespace convoy
