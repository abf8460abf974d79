// Level 1 of the acceptance test: takes the inventory of all nodes and GPUs and compares them.
#pragma once
#include "accept/inventory_comparison.h"
#include "accept/node_facts.h"
#include "backend/backend.h"

namespace convoy {

/// Everything about one rank that inventory_level() gathers.
struct RankInventory {
    std::string host;
    int ranks = 1;   ///< of its node
    Facts node{};    ///< empty, except on the node's first rank
    Facts device{};  ///< empty for a CPU
};
/// Converts to and from text for messages between ranks. encoded() escapes control characters in
/// facts by printable().
std::string encoded(const RankInventory&);
RankInventory decoded(const std::string&);

/// Returns the nodes, in the order of their first ranks, from the inventory of each rank.
std::vector<NodeInventory> nodes_of(const std::vector<RankInventory>&);

/// Compares all nodes and GPUs. `versions` and `environment`: of this rank, as a run records them.
/// `health`: Backend::health(). Watches for a third of a second which other processes compute.
/// Returns the same on every rank. Collective.
LevelResult inventory_level(Comm&, const Versions& versions, const Facts& environment, const Facts& health,
                            const NodeSource& = {});

}  // namespace convoy
