// A made-up cluster, whose nodes and GPUs tests change to see whom the inventory blames.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "accept/inventory_comparison.h"
#include "base/text.h"

namespace convoy::test {

inline void set(Facts& facts, const std::string& name, const std::string& text) {
    const auto found = std::ranges::find(facts, name, &Facts::value_type::first);
    if (found == facts.end())
        facts.emplace_back(name, text);
    else
        found->second = text;
}

/// Makes a cluster of equal nodes named node01, node02, …
inline std::vector<NodeInventory> cluster(int count, int gpus = 0) {
    std::vector<NodeInventory> nodes;
    for (int n = 1; n <= count; ++n) {
        NodeInventory node{.host = formatted("node%02d", n), .ranks = std::max(1, gpus)};
        node.facts = {{"kernel", "Linux 6.1"},     {"cpu", "EPYC, 64 processors"},
                      {"memory", "503.5 GiB"},     {"ip", "10.0.0." + std::to_string(n)},
                      {"governor", "performance"}, {"clock source", "tsc"},
                      {"/dev/shm", "251.000 GiB"}, {"free in /dev/shm", "250.000 GiB"},
                      {"network cards", "eth0"},   {"eth0 state", "up"},
                      {"eth0 speed", "25 Gb/s"},   {"driver", "580.82.07"},
                      {"nccl", "2.26.2"}};
        for (int g = 0; g < gpus; ++g)
            node.devices.push_back({(n - 1) * gpus + g,
                                    {{"gpu", "H100"},
                                     {"gpu_serial", std::to_string(100 * n + g)},
                                     {"index", std::to_string(g)},
                                     {"ECC", "on"},
                                     {"ECC after a restart", "on"},
                                     {"power limit", "700 W"},
                                     {"temperature", std::to_string(40 + n) + " °C"},
                                     {"throttled by", "nothing"},
                                     {"PCIe width", "16 of 16"},
                                     {"NVLinks", "18"},
                                     {"uncorrected ECC errors", "0"},
                                     {"row remapping pending", "no"}}});
        nodes.push_back(node);
    }
    return nodes;
}

/// Returns "host device: reason", with " (drain)" for those to drain, in the order of blame.
inline std::vector<std::string> blamed(const LevelResult& result) {
    std::vector<std::string> texts;
    for (const Blamed& b : result.blamed)
        texts.push_back(b.host + (b.device.empty() ? "" : " " + b.device) + ": " + b.reason +
                        (b.drain ? " (drain)" : ""));
    return texts;
}
using Texts = std::vector<std::string>;

/// Compares a cluster whose node has another text for a fact.
inline LevelResult with_node(int count, int node, const std::string& fact, const std::string& text) {
    auto nodes = cluster(count);
    set(nodes.at(size_t(node) - 1).facts, fact, text);
    return compare_inventories(nodes);
}
/// Compares a cluster of two nodes with four GPUs each, whose third GPU of node02 has another text.
inline LevelResult with_gpu(const std::string& fact, const std::string& text) {
    auto nodes = cluster(2, 4);
    set(nodes[1].devices[2].facts, fact, text);
    return compare_inventories(nodes);
}

}  // namespace convoy::test
