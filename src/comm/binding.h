// Which cores a rank's threads run on. If the launcher did not say, the ranks of a node share its
// cores out among themselves, each near its GPU.
#pragma once
#include <hwloc.h>

#include <memory>
#include <string>
#include <vector>

namespace convoy {

class Comm;

/// The cores and devices of this machine, or of one described to hwloc.
class Machine {
public:
    Machine();                                ///< this one
    explicit Machine(const char* synthetic);  ///< as in "numa:2 core:8 pu:2", for tests
    hwloc_topology_t get() const { return topology_.get(); }

private:
    std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> topology_;
};

using CpuSet = std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)>;
/// Processor numbers as hwloc writes them: "0-3,8-11".
CpuSet cpu_set(const std::string& list);
std::string list_of(const CpuSet&);

/// What is known of one rank of a node before it is bound.
struct Unbound {
    std::string allowed;  ///< processors its launcher lets it use
    std::string near;     ///< processors of the NUMA node its GPU is at; empty: all the same
};
/// The processors for each rank of a node, in order; empty for a rank that is to be left as it is.
/// Leaves all as they are if the launcher gave ranks different cores, and those ranks that share
/// cores with more ranks than there are cores. Gives whole cores; ranks near the same cores get
/// equal numbers of them, give or take one.
std::vector<std::string> share_out(const Machine&, const std::vector<Unbound>& ranks);

/// Binds the calling thread, and thus the threads it starts, as share_out says; collective over the
/// ranks. `bus`: PCI bus id of this rank's GPU, or empty. Returns where it runs then: "processors
/// 0-7 of NUMA node 0, bound; mlx5_0 is near".
std::string bind_rank(Comm&, const std::string& bus, bool wanted);

}  // namespace convoy
