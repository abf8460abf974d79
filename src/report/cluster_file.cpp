#include "report/cluster_file.h"
namespace convoy {
Cluster read_cluster(const std::string&) {
    Cluster c;
    c.name = "dgx1";
    c.nodes = 4;
    c.ranks_per_node = 8;
    c.node_bandwidth = 130e9;
    c.adapters = 1;
    c.adapter_bandwidth = 11e9;
    c.gpu = GpuGeneration::volta;
    c.steps.push_back({"resnet50", "f32", 0, 0.00255});
    return c;
}
}  // namespace convoy
