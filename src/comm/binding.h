// Binds the threads of ranks to cores. If the launcher has not bound them, the ranks of a node
// divide its cores among themselves, each near its GPU.
#pragma once
#include <hwloc.h>

#include <memory>
#include <string>
#include <vector>

namespace convoy {

class Comm;

/// The cores and devices of this machine, or of a synthetic one.
class Machine {
public:
    Machine();                                ///< this machine
    explicit Machine(const char* synthetic);  ///< described to hwloc: "numa:2 core:8 pu:2", for tests
    hwloc_topology_t get() const { return topology_.get(); }

private:
    std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> topology_;
};

using CpuSet = std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)>;
/// Converts to and from lists of processor numbers as hwloc writes them: "0-3,8-11".
CpuSet cpu_set(const std::string& list);
std::string list_of(const CpuSet&);

/// A rank of a node before it is bound.
struct Unbound {
    std::string allowed;  ///< processors that the launcher lets it use
    std::string near;     ///< processors of the NUMA node of its GPU; empty: no preference
};
/// Returns the processors for each rank of a node, in order. An empty list leaves a rank unbound.
/// All are empty if the launcher gave ranks different cores. Otherwise ranks with the same `near`
/// divide its whole cores equally, give or take one. If there are more such ranks than cores, all
/// their lists are empty.
std::vector<std::string> share_out(const Machine&, const std::vector<Unbound>& ranks);

/// Binds the calling thread, and the threads it starts, to its part from share_out(). Does not bind
/// it if `wanted` is false. `bus`: PCI bus id of this rank's GPU, or empty. Returns where the
/// thread runs: "processors 0-7 of NUMA node 0; mlx5_0 is near". Collective.
std::string bind_rank(Comm&, const std::string& bus, bool wanted);

}  // namespace convoy
