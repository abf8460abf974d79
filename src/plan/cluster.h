// Machines, as far as the time of sums over ranks and the supply of images depend on them. One rank
// a GPU.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

enum class GpuGeneration : uint8_t { volta, ampere, hopper, blackwell };  ///< V100, A100, H100, B200
enum class NodeLink : uint8_t { nvlink, pcie };
enum class CpuVendor : uint8_t { intel, amd, other };

/// An all-reduce that was measured.
struct MeasuredSum {
    int nodes, ranks_per_node;
    double bytes, seconds;
};

/// Known time of a training step of a model: fixed + batch * per_sample.
struct KnownStep {
    std::string model, precision;
    double fixed, per_sample;  ///< seconds
    int ranks_per_node = 1;    ///< on which it was measured, and whose loss it has
};

/// Bandwidths are in bytes/s, latencies in seconds.
struct Cluster {
    std::string name;
    int nodes = 1, ranks_per_node = 1;
    double node_bandwidth = 0;    ///< of sums inside a node: nccl-tests' bus bandwidth
    double switch_bandwidth = 0;  ///< the same of sums in the switch (NVLS); 0: it has none
    int adapters = 0;             ///< of the network, a node; 0: one node
    double adapter_bandwidth = 0;
    bool verbs = true;       ///< InfiniBand or RoCE; false: sockets
    double hop_latency = 0;  ///< of a message between nodes, besides NCCL's own constants
    GpuGeneration gpu = GpuGeneration::ampere;
    NodeLink link = NodeLink::nvlink;
    CpuVendor cpu = CpuVendor::intel;
    bool ll128 = true;             ///< false: not between nodes, though the GPUs have NVLink
    int channels = 0;              ///< of NCCL; 0: as many as is usual for the GPU
    bool hierarchical = false;     ///< sums are of each node first, then over nodes: not NCCL's way
    double images_per_second = 0;  ///< that a node reads; 0: as many as are wanted
    std::vector<MeasuredSum> sums{};
    std::vector<KnownStep> steps{};

    double network_bandwidth() const { return adapters * adapter_bandwidth; }
};

}  // namespace convoy
