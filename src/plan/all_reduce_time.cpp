#include "plan/all_reduce_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace convoy {
namespace {

enum Protocol : uint8_t { LL, LL128, Simple };
constexpr std::array protocol_names = {"LL", "LL128", "Simple"};
template <class T> using ByProtocol = std::array<T, 3>;
using ByNodes = std::array<double, 3>;                     // 1 node, 2 nodes, more
template <class T> using ByGeneration = std::array<T, 4>;  // GpuGeneration

// NCCL's tables, in microseconds and GB/s.
constexpr ByProtocol<double> base_ring = {6.6, 14.0, 8.4}, base_tree = {6.8, 14.0, 8.4};
constexpr ByProtocol<double> nvlink_ring = {0.6, 1.9, 3.4}, nvlink_tree = {0.6, 1.25, 4.0};
constexpr ByProtocol<double> pcie_ring = {1.0, 2.5, 5.7}, pcie_tree = {1.0, 1.9, 4.0};
constexpr ByProtocol<double> network_ring = {2.7, 4.0, 14.0}, network_tree = {5.0, 8.5, 14.0};
constexpr double switch_latency = 25, switch_network_latency = 20.9;

constexpr ByGeneration<double> most_ll_one_node = {39, 87.7, 141, 282};
constexpr std::array<std::array<double, 2>, 2> most_ll = {{{39, 20.4}, {22.5, 19}}};  // Intel, AMD; 2 and more nodes
constexpr ByGeneration<double> channel_ring_ll128 = {20, 20, 36.7, 40};
constexpr ByGeneration<ByNodes> channel_tree_ll128 = {
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}}};
constexpr ByGeneration<ByNodes> channel_tree = {
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70, 42.8, 24}}};
constexpr ByGeneration<int> usual_channels = {12, 24, 16, 32};

/// Share of its bandwidth that a tree reaches, by log2(bytes / 64), up to 256 MiB. NCCL's table has
/// one more column, which NCCL does not read.
constexpr ByProtocol<std::array<double, 23>> tree_correction = {
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};

constexpr double microsecond = 1e-6, gigabyte = 1e9;

/// Times of an all-reduce of `bytes` on nodes x ranks_per_node GPUs, one function per algorithm.
class CostModel {
public:
    CostModel(const Cluster& c, double bytes, int nodes, int ranks_per_node)
        : cluster_(c),
          bytes_(bytes),
          nodes_(nodes),
          per_node_(ranks_per_node),
          channels_(c.channels > 0 ? c.channels : usual_channels[generation()]),
          bandwidth_(nodes == 1 ? c.node_bandwidth : std::min(c.node_bandwidth, c.network_bandwidth())) {}

    double ring(Protocol p) const {
        constexpr ByProtocol<double> share = {0.5, 0.92, 1};
        double bus = bandwidth_ * share[p];
        if (p == LL) bus = std::min(bus, ll_limit());
        if (p == LL128) bus = std::min(bus, channels_ * channel_ring_ll128[generation()] * gigabyte);
        // 2 (N - 1) hops, of which `between` go from node to node
        const int between = nodes_ == 1 ? 0 : 2 * (nodes_ - 1), hops = 2 * (ranks() - 1);
        const double inside = std::max(inside_ring(p), overhead(p)),
                     // with one rank per node no part of a message's latency is hidden
            network = per_node_ == 1 ? network_tree[p] : network_ring[p];
        double latency = base_ring[p] + (hops - between) * inside + between * (network + hop(p));
        if (p == Simple && nodes_ > 1 && bytes_ / (double(channels_) * ranks()) >= 64)
            latency *= cluster_.gpu == GpuGeneration::volta ? 1.9 : 1.4;
        return latency * microsecond + bytes_ * hops / (bus * ranks());
    }

    double tree(Protocol p) const {
        double bus = std::min(0.92 * bandwidth_, in_channels(channel_tree));
        if (p == LL) bus = std::min(bus / 3.8, ll_limit());
        if (p == LL128) bus = std::min(bus * (nodes_ == 1 ? 7.0 / 9 : 15.0 / 16), in_channels(channel_tree_ll128));
        const size_t size = bytes_ < 64 ? 0 : size_t(std::log2(bytes_ / 64));
        if (size < tree_correction[p].size()) bus *= tree_correction[p][size];
        const double inside = nvlink() ? nvlink_tree[p] : pcie_tree[p], between = network_tree[p] + hop(p),
                     latency = base_tree[p] + 2 * ((per_node_ - 1) * inside + std::log2(nodes_) * between);
        return latency * microsecond + bytes_ / (0.5 * bus);
    }

    /// Returns the seconds of an all-reduce in the switch of a node. Over several nodes, each rank
    /// also all-reduces its share with its peers on other nodes; this overlaps with the switch's
    /// work.
    double in_switch() const {
        double bus = cluster_.switch_bandwidth, latency = switch_latency * microsecond;
        double seconds = bytes_ * 2 * (per_node_ - 1) / (bus * per_node_);
        if (nodes_ > 1) {
            latency += 2 * std::log2(nodes_) * (switch_network_latency + hop(Simple)) * microsecond;
            seconds = std::max(seconds, between_nodes());
        }
        return latency + seconds;
    }

    /// Returns the seconds of a reduce-scatter inside each node, then a ring over nodes for each
    /// rank's share, then an all-gather inside each node. Nothing overlaps.
    double hierarchical() const {
        const double inside = 2.0 * (per_node_ - 1) / per_node_ * bytes_ / cluster_.node_bandwidth;
        const double latency = base_ring[Simple] + 2 * (per_node_ - 1) * inside_ring(Simple) +
                               2 * (nodes_ - 1) * (network_ring[Simple] + hop(Simple));
        return latency * microsecond + inside + between_nodes();
    }

private:
    size_t generation() const { return size_t(cluster_.gpu); }
    size_t by_nodes() const { return nodes_ < 3 ? size_t(nodes_ - 1) : 2; }
    int ranks() const { return nodes_ * per_node_; }
    bool nvlink() const { return cluster_.link == NodeLink::nvlink; }
    double inside_ring(Protocol p) const { return nvlink() ? nvlink_ring[p] : pcie_ring[p]; }
    /// Returns the latency that the cluster's network adds to a message, in microseconds. It counts
    /// twice for Simple, which also flushes the data that arrived.
    double hop(Protocol p) const { return (p == Simple ? 2 : 1) * cluster_.hop_latency / microsecond; }
    double in_channels(const ByGeneration<ByNodes>& per_channel) const {
        return channels_ * per_channel[generation()][by_nodes()] * gigabyte;
    }
    double ll_limit() const {
        if (nodes_ == 1) return most_ll_one_node[generation()] * gigabyte;
        return most_ll[cluster_.cpu == CpuVendor::amd ? 1 : 0][nodes_ == 2 ? 0 : 1] * gigabyte;
    }
    /// Returns the microseconds that the CPU adds to a message; 0 on one node.
    double overhead(Protocol p) const {
        if (nodes_ == 1) return 0;
        return (cluster_.cpu == CpuVendor::amd ? 2 : 1) * (p == Simple ? 3 : 1);
    }
    double between_nodes() const { return bytes_ * 2 * (nodes_ - 1) / (nodes_ * cluster_.network_bandwidth()); }

    const Cluster& cluster_;
    const double bytes_;
    const int nodes_, per_node_, channels_;
    const double bandwidth_;
};

AllReduceTime modelled(const Cluster& c, double bytes, int nodes, int ranks_per_node) {
    const CostModel model(c, bytes, nodes, ranks_per_node);
    if (c.hierarchical && nodes > 1) return {.seconds = model.hierarchical(), .algorithm = "hierarchical"};
    AllReduceTime best{.seconds = INFINITY};
    const auto consider = [&](double seconds, const char* algorithm, const char* protocol) {
        if (seconds < best.seconds) best = {.seconds = seconds, .algorithm = algorithm, .protocol = protocol};
    };
    for (const Protocol p : {LL, LL128, Simple}) {
        // LL128 needs 128-byte stores that are not split; PCIe, or a CPU on the way, may split them
        if (p == LL128 && (c.link != NodeLink::nvlink || (nodes > 1 && !c.ll128))) continue;
        consider(model.ring(p), "ring", protocol_names[p]);
        consider(model.tree(p), "tree", protocol_names[p]);
    }
    if (c.switch_bandwidth > 0 && ranks_per_node > 1) consider(model.in_switch(), "switch", "");
    return best;
}

/// Interpolates the seconds for `bytes` between `all_reduces`, of which there must be one or more.
/// They must be sorted by size, and all have the same numbers of nodes and ranks.
double interpolated(const std::vector<MeasuredAllReduce>& all_reduces, double bytes) {
    const auto above = std::lower_bound(all_reduces.begin(), all_reduces.end(), bytes,
                                        [](const MeasuredAllReduce& s, double wanted) { return s.bytes < wanted; });
    if (above == all_reduces.begin()) return above->seconds;  // latency
    if (above == all_reduces.end()) return all_reduces.back().seconds * bytes / all_reduces.back().bytes;
    const MeasuredAllReduce& below = *std::prev(above);
    const double at = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
    return below.seconds * std::pow(above->seconds / below.seconds, at);
}

/// Returns the measurements for the nearest number of nodes, and among these for the nearest number
/// of ranks per node; sorted by size. Distance is the difference of logarithms. Measurements on one
/// node serve only one node. If two numbers are equally near (2 and 8 nodes, for 4), takes the
/// smaller one. Returns nothing if there are none.
std::vector<MeasuredAllReduce> nearest(const Cluster& c, int nodes, int ranks_per_node) {
    const auto distance = [&](const MeasuredAllReduce& s) {
        return std::tuple(std::abs(std::log(double(s.nodes) / nodes)), s.nodes,
                          std::abs(std::log(double(s.ranks_per_node) / ranks_per_node)), s.ranks_per_node);
    };
    std::vector<MeasuredAllReduce> near;
    for (const MeasuredAllReduce& s : c.all_reduces) {
        if ((s.nodes == 1) != (nodes == 1) || s.nodes * s.ranks_per_node < 2) continue;
        // most measurements have the nodes and ranks of near[0], and need no logarithms
        const bool same = !near.empty() && s.nodes == near[0].nodes && s.ranks_per_node == near[0].ranks_per_node;
        if (!same && !near.empty() && distance(s) > distance(near[0])) continue;
        if (!same && !near.empty() && distance(s) < distance(near[0])) near.clear();
        near.push_back(s);
    }
    std::sort(near.begin(), near.end(),
              [](const MeasuredAllReduce& a, const MeasuredAllReduce& b) { return a.bytes < b.bytes; });
    return near;
}

}  // namespace

AllReduceTimes::AllReduceTimes(const Cluster& c, int nodes, int ranks_per_node)
    : cluster_(c), nodes_(nodes), per_node_(ranks_per_node), measured_(nearest(c, nodes, ranks_per_node)) {}

AllReduceTime AllReduceTimes::of(double bytes) const {
    if (nodes_ * per_node_ < 2) return {};
    AllReduceTime time = modelled(cluster_, bytes, nodes_, per_node_);
    if (measured_.empty()) return time;
    const double there = modelled(cluster_, bytes, measured_[0].nodes, measured_[0].ranks_per_node).seconds;
    time.seconds *= interpolated(measured_, bytes) / there;
    time.measured = true;
    return time;
}

AllReduceTime all_reduce_time(const Cluster& c, double bytes, int nodes, int ranks_per_node) {
    return AllReduceTimes(c, nodes, ranks_per_node).of(bytes);
}

}  // namespace convoy
