// Describes machines, as far as the time of all-reduces and the supply of images depend on them.
// There is one rank per GPU.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

enum class GpuGeneration : uint8_t { volta, ampere, hopper, blackwell };  ///< V100, A100, H100, B200
enum class NodeLink : uint8_t { nvlink, pcie };
enum class CpuVendor : uint8_t { intel, amd, other };

/// A measured all-reduce.
struct MeasuredAllReduce {
    int nodes, ranks_per_node;
    double bytes, seconds;
};

/// Known time of a training step of a model: fixed + batch * per_sample.
struct KnownStep {
    std::string model, precision;
    double fixed, per_sample;  ///< seconds
    int ranks_per_node = 1;    ///< in the measured run; the times include the slowdown of this many ranks
};

/// Bandwidths are in bytes/s, latencies in seconds.
struct Cluster {
    std::string name;
    int nodes = 1, ranks_per_node = 1;
    double node_bandwidth = 0;    ///< bandwidth of an all-reduce inside a node: nccl-tests' bus bandwidth
    double switch_bandwidth = 0;  ///< bandwidth of an all-reduce in the switch (NVLS); 0: no such switch
    int adapters = 0;             ///< network adapters per node; 0: the cluster is one node
    double adapter_bandwidth = 0;
    bool verbs = true;       ///< InfiniBand or RoCE; false: sockets
    double hop_latency = 0;  ///< per message between nodes, on top of NCCL's own constants
    GpuGeneration gpu = GpuGeneration::ampere;
    NodeLink link = NodeLink::nvlink;
    CpuVendor cpu = CpuVendor::intel;
    bool ll128 = true;             ///< false: no LL128 between nodes, even if the GPUs have NVLink
    int channels = 0;              ///< NCCL's channels; 0: the usual number for the GPU
    bool hierarchical = false;     ///< all-reduces run inside each node, then over nodes; NCCL has no such algorithm
    double images_per_second = 0;  ///< images that a node can read per second; 0: unlimited
    std::vector<MeasuredAllReduce> all_reduces{};
    std::vector<KnownStep> steps{};

    double network_bandwidth() const { return adapters * adapter_bandwidth; }
};

}  // namespace convoy
