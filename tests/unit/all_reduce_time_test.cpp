// The time of all-reduces compared with hand calculations, with a second implementation of NCCL's
// ncclTopoTuneModel and ncclTopoGetAlgoTime, and with measured tables.
#include "plan/all_reduce_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace convoy::test {
namespace {

constexpr double MiB = 1 << 20, GiB = 1 << 30;
// Formulas in the test and in the code differ in the order of their operations.
constexpr double rounding = 1e-9;

Cluster v100(int nodes) {
    return {.name = "v100",
            .nodes = nodes,
            .ranks_per_node = 8,
            .node_bandwidth = 130e9,
            .adapters = 1,
            .adapter_bandwidth = 12e9,
            .gpu = GpuGeneration::volta};
}
Cluster a100(int nodes) {
    return {.name = "a100",
            .nodes = nodes,
            .ranks_per_node = 8,
            .node_bandwidth = 230e9,
            .adapters = 8,
            .adapter_bandwidth = 24e9,
            .gpu = GpuGeneration::ampere,
            .cpu = CpuVendor::amd};
}

void expect_time(const Cluster& c, double bytes, int nodes, int ranks_per_node, const std::string& by,
                 double microseconds) {
    const AllReduceTime t = all_reduce_time(c, bytes, nodes, ranks_per_node);
    EXPECT_EQ(std::string(t.algorithm) + " " + t.protocol, by) << bytes << " bytes on " << nodes << " nodes";
    EXPECT_NEAR(t.seconds * 1e6, microseconds, microseconds * rounding) << bytes << " bytes on " << nodes << " nodes";
    EXPECT_FALSE(t.measured);
}

TEST(AllReduceTime, OfOneRankIsZero) {
    const AllReduceTime t = all_reduce_time(v100(1), GiB, 1, 1);
    EXPECT_EQ(t.seconds, 0);
    EXPECT_STREQ(t.algorithm, "none");
}

// 8 GPUs: a ring has 14 hops, and each byte passes 14/8 times. A tree goes 7 hops up and down, and
// each byte passes twice.
TEST(AllReduceTime, OnOneNodeByHand) {
    // 12 channels. Tree LL: min(0.92 * 130, 12 * 26.5) / 3.8 = 31.4737 GB/s, all of it below 1 KiB.
    expect_time(v100(1), 1024, 1, 8, "ring LL", 6.6 + 14 * 0.6 + 1024 * 1.75 / 39e3);
    // At 512 KiB (2^13 * 64) tree LL has 0.4 of that, tree LL128 0.6 of 7/9 of 119.6 GB/s; ring LL
    // is bound by 39 GB/s, ring LL128 has 0.92 of 130.
    expect_time(v100(1), 0.5 * MiB, 1, 8, "ring LL", 6.6 + 14 * 0.6 + 524288 * 1.75 / 39e3);
    expect_time(v100(1), 8 * MiB, 1, 8, "ring LL128", 14 + 14 * 1.9 + 8388608 * 1.75 / (0.92 * 130e3));
    expect_time(v100(1), GiB, 1, 8, "ring Simple", 8.4 + 14 * 3.4 + 1073741824 * 1.75 / 130e3);
    // An Ampere's LL reaches 87.7 GB/s, so half of the bus, 115, is cut.
    expect_time(a100(1), 65536, 1, 8, "ring LL", 6.6 + 14 * 0.6 + 65536 * 1.75 / 87.7e3);
    expect_time(a100(1), 8 * MiB, 1, 8, "ring LL128", 14 + 14 * 1.9 + 8388608 * 1.75 / (0.92 * 230e3));
    expect_time(a100(1), GiB, 1, 8, "ring Simple", 8.4 + 14 * 3.4 + 1073741824 * 1.75 / 230e3);
}

// 16 ranks on 2 nodes: 30 hops, 2 of them between nodes, and 30/16. A tree has one level of nodes.
TEST(AllReduceTime, OnTwoNodesByHand) {
    // Ring LL would take 6.6 + 28 * 1 + 2 * 2.7 = 40 us, because the processor delays each hop by 1
    // us.
    expect_time(v100(2), 1024, 2, 8, "tree LL", 6.8 + 2 * (7 * 0.6 + 5) + 1024 / (0.5 * 0.92 * 12e3 / 3.8 * 0.9));
    // Ring LL128: 0.92 of the adapter. Tree LL128 has 0.9 * 15/16 of as much, but reads twice.
    expect_time(v100(2), 8 * MiB, 2, 8, "ring LL128", 14 + 28 * 1.9 + 2 * 4 + 8388608 * 1.875 / (0.92 * 12e3));
    // Simple: a hop in a node waits max(3.4, 3 * 1) us; on Volta 1.9 times as long in all.
    expect_time(v100(2), GiB, 2, 8, "ring Simple", 1.9 * (8.4 + 28 * 3.4 + 2 * 14) + 1073741824 * 1.875 / 12e3);
    // 8 * 24 GB/s are less than the 230 inside. AMD: 2 us per hop, and 6 for Simple; Ampere: 1.4.
    // Tree LL128: 0.9 of 15/16 of 0.92 * 192; 24 channels would carry 480.
    expect_time(a100(2), 8 * MiB, 2, 8, "tree LL128",
                14 + 2 * (7 * 1.25 + 8.5) + 8388608 / (0.5 * 0.9 * 0.9375 * 0.92 * 192e3));
    expect_time(a100(2), 64 * MiB, 2, 8, "ring LL128", 14 + 28 * 2 + 2 * 4 + 67108864 * 1.875 / (0.92 * 192e3));
    expect_time(a100(2), GiB, 2, 8, "ring Simple", 1.4 * (8.4 + 28 * 6 + 2 * 14) + 1073741824 * 1.875 / 192e3);
}

// 32 ranks on 4 nodes: 62 hops, 6 of them between nodes, and 62/32. A tree has two levels of nodes.
TEST(AllReduceTime, OnFourNodesByHand) {
    expect_time(v100(4), 1024, 4, 8, "tree LL", 6.8 + 2 * (7 * 0.6 + 2 * 5) + 1024 / (0.5 * 0.92 * 12e3 / 3.8 * 0.9));
    expect_time(v100(4), 8 * MiB, 4, 8, "ring LL128", 14 + 56 * 1.9 + 6 * 4 + 8388608 * 1.9375 / (0.92 * 12e3));
    expect_time(v100(4), GiB, 4, 8, "ring Simple", 1.9 * (8.4 + 56 * 3.4 + 6 * 14) + 1073741824 * 1.9375 / 12e3);
    expect_time(a100(4), GiB, 4, 8, "ring Simple", 1.4 * (8.4 + 56 * 6 + 6 * 14) + 1073741824 * 1.9375 / 192e3);
}

// NCCL's tables and formulas as in its source (src/graph/tuning.cc, 5067397c), in microseconds and
// GB/s. First values that all algorithms share (busBw), then those of one algorithm and protocol.
struct Nccl {
    enum { TREE, RING, LL = 0, LL128, SIMPLE };
    double bus, hop;
    int channels, compute_capability, nodes, ranks;
    bool nvlink, amd;

    double seconds(int a, int p, double bytes) const {
        static constexpr double base[2][3] = {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}};
        static constexpr double hw[3][2][3] = {{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}},
                                               {{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}},
                                               {{5.0, 8.5, 14}, {2.7, 4.0, 14.0}}};
        static constexpr double ll_max[4][3] = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
        static constexpr double ring_ll128[4] = {20, 20, 36.7, 40};
        static constexpr double tree_ll128[4][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
        static constexpr double tree[4][3] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
        static constexpr int corrections[3][23] = {
            {10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10},
            {10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10},
            {9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9}};
        if (p == LL128 && !nvlink) return INFINITY;
        const int cc = compute_capability, by_nodes = std::min(nodes, 3) - 1, ppn = ranks / nodes;
        const int by_gpu_or_cpu = nodes == 1 ? cc : amd ? 1 : 0;
        double bw = bus;
        if (a == RING && p == LL) bw = std::min(ll_max[by_gpu_or_cpu][by_nodes], bw * 0.5);
        if (a == RING && p == LL128) bw = std::min(bw * 0.92, channels * ring_ll128[cc]);
        if (a == TREE) bw = std::min(bw * 0.92, channels * tree[cc][by_nodes]);
        if (a == TREE && p == LL) bw = std::min(bw / 3.8, ll_max[by_gpu_or_cpu][by_nodes]);
        if (a == TREE && p == LL128)
            bw = std::min(bw * (nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0), channels * tree_ll128[cc][by_nodes]);
        const int steps = 2 * (ranks - 1), between = nodes == 1 ? 0 : 2 * (nodes - 1);
        bw *= a == RING ? double(ranks) / steps : 0.5;
        double inside = hw[nvlink ? 0 : 1][a][p];
        double net = hw[2][ppn == 1 ? int(TREE) : a][p] + hop;
        if (p == SIMPLE) net += hop;
        double latency = base[a][p];
        if (a == RING) {
            double overhead = nodes == 1 ? 0 : amd ? 2.0 : 1.0;
            if (p == SIMPLE) overhead *= 3;
            latency += (steps - between) * std::max(inside, overhead) + between * net;
        } else {
            latency += 2 * ((ppn - 1) * inside + std::log2(nodes) * net);
            int size = 0;
            while (std::ldexp(64, size + 1) <= bytes) ++size;
            if (size < 23) bw *= corrections[p][size] / 10.0;
        }
        if (a == RING && p == SIMPLE && nodes > 1 && bytes / (channels * ranks) >= 64) latency *= cc == 0 ? 1.9 : 1.4;
        return latency * 1e-6 + bytes / (bw * 1e9);
    }
};

/// Computes all algorithms and protocols. all_reduce_time must name the fastest.
void expect_nccls(const Cluster& c, int nodes, int ppn, double bytes) {
    static constexpr int usual_channels[] = {12, 24, 16, 32};
    const double network = c.adapters * c.adapter_bandwidth;
    const Nccl nccl{.bus = (nodes == 1 ? c.node_bandwidth : std::min(c.node_bandwidth, network)) / 1e9,
                    .hop = c.hop_latency * 1e6,
                    .channels = c.channels > 0 ? c.channels : usual_channels[int(c.gpu)],
                    .compute_capability = int(c.gpu),
                    .nodes = nodes,
                    .ranks = nodes * ppn,
                    .nvlink = c.link == NodeLink::nvlink,
                    .amd = c.cpu == CpuVendor::amd};
    double best = INFINITY;
    std::string by;
    for (int p = 0; p < 3; ++p)
        for (const int a : {Nccl::RING, Nccl::TREE})
            if (const double seconds = nccl.seconds(a, p, bytes); seconds < best) {
                best = seconds;
                by = std::string(a == Nccl::RING ? "ring " : "tree ") + (p == 0 ? "LL" : p == 1 ? "LL128" : "Simple");
            }
    expect_time(c, bytes, nodes, ppn, by, best * 1e6);
}

TEST(AllReduceTime, IsTheLeastOfNcclsModelEverywhere) {
    for (const auto gpu :
         {GpuGeneration::volta, GpuGeneration::ampere, GpuGeneration::hopper, GpuGeneration::blackwell})
        for (const auto cpu : {CpuVendor::intel, CpuVendor::amd, CpuVendor::other})
            for (const auto link : {NodeLink::nvlink, NodeLink::pcie})
                for (const int channels : {0, 2})
                    for (const double node_bandwidth : {20e9, 130e9, 700e9}) {
                        const Cluster c{.name = "some",
                                        .node_bandwidth = node_bandwidth,
                                        .adapters = 4,
                                        .adapter_bandwidth = 24e9,
                                        .hop_latency = channels * 3e-6,
                                        .gpu = gpu,
                                        .link = link,
                                        .cpu = cpu,
                                        .channels = channels};
                        for (const int nodes : {1, 2, 3, 4, 16, 100})
                            for (const int ppn : {1, 2, 8})
                                for (double bytes = 8; nodes * ppn > 1 && bytes < 16 * GiB; bytes *= 5)
                                    expect_nccls(c, nodes, ppn, bytes);
                    }
}

// 2 channels, 2 ranks: from 64 * 4 bytes on, the Simple ring takes 1.4 times its latency. PCIe has
// no LL128, and a slow hop leaves only Simple if the bandwidth of LL is low.
TEST(AllReduceTime, PlateauOfSimpleBeginsAt64BytesOfAChannelAndRank) {
    Cluster c = a100(2);
    c.node_bandwidth = 1e3;  // so slow that its share decides
    c.channels = 2;
    c.link = NodeLink::pcie;
    // one rank per node: the latency of trees
    const double latency = 8.4 + 2 * 14;
    expect_time(c, 255, 2, 1, "ring Simple", latency + 255 / 1e-3);
    expect_time(c, 256, 2, 1, "ring Simple", 1.4 * latency + 256 / 1e-3);
    c.gpu = GpuGeneration::volta;
    expect_time(c, 256, 2, 1, "ring Simple", 1.9 * latency + 256 / 1e-3);
    expect_time(c, 255, 1, 2, "ring Simple", 8.4 + 2 * 5.7 + 255 / 1e-3);
    expect_time(c, 4096, 1, 2, "ring Simple", 8.4 + 2 * 5.7 + 4096 / 1e-3);
}

// The corrections of trees, by powers of two of 64 bytes: on 100 nodes a tree is always the
// quickest.
TEST(AllReduceTime, TreesHaveTheirShareByPowersOfTwo) {
    Cluster c = a100(100);
    const double bus = 0.92 * 192e3, levels = std::log2(100);
    const double simple = 8.4 + 2 * (7 * 4 + levels * 14), ll128 = 14 + 2 * (7 * 1.25 + levels * 8.5);
    expect_time(c, 256 * MiB, 100, 8, "tree LL128", ll128 + 256 * MiB / (0.5 * 0.9375 * bus));
    // at 2^20 * 64 LL128 has 0.9 of 15/16; from 2^21 on it has all of it; Simple has 0.9 or less
    expect_time(c, 64 * MiB, 100, 8, "tree LL128", ll128 + 64 * MiB / (0.5 * 0.9 * 0.9375 * bus));
    expect_time(c, 128 * MiB - 64, 100, 8, "tree LL128", ll128 + (128 * MiB - 64) / (0.5 * 0.9 * 0.9375 * bus));
    expect_time(c, 128 * MiB, 100, 8, "tree LL128", ll128 + 128 * MiB / (0.5 * 0.9375 * bus));
    // from 2^23 * 64 on Simple has all of its bandwidth
    expect_time(c, 512 * MiB, 100, 8, "tree Simple", simple + 512 * MiB / (0.5 * bus));
}

TEST(AllReduceTime, OverPcieThereIsNoLl128) {
    Cluster c = a100(2);
    c.link = NodeLink::pcie;
    for (const int nodes : {1, 2})
        for (double bytes = 64; bytes < GiB; bytes *= 2)
            EXPECT_STRNE(all_reduce_time(c, bytes, nodes, 4).protocol, "LL128") << bytes << ", " << nodes;
}

TEST(AllReduceTime, InTheSwitchTakes25MicrosecondsAndItsBandwidth) {
    Cluster c = a100(4);
    c.gpu = GpuGeneration::hopper;
    c.node_bandwidth = 360e9;
    c.switch_bandwidth = 480e9;
    c.adapter_bandwidth = 48e9;
    c.hop_latency = 2e-6;
    expect_time(c, GiB, 1, 8, "switch ", 25 + GiB * 1.75 / 480e3);
    // small ones go by LL
    EXPECT_STREQ(all_reduce_time(c, 1024, 1, 8).algorithm, "ring");
    // Over 4 nodes the network takes longer: 6/4 of the bytes by 8 * 48 GB/s; two levels up and
    // down, each with a flush.
    expect_time(c, GiB, 4, 8, "switch ", 25 + 2 * 2 * (20.9 + 2 * 2) + GiB * 1.5 / 384e3);
    c.adapter_bandwidth = 480e9;
    c.node_bandwidth = 100e9;
    expect_time(c, GiB, 4, 8, "switch ", 25 + 2 * 2 * (20.9 + 2 * 2) + GiB * 1.75 / 480e3);
    EXPECT_STRNE(all_reduce_time(c, GiB, 4, 1).algorithm, "switch") << "one GPU a node has none";
}

TEST(AllReduceTime, HierarchicalSumsEachNodeAndThenOverNodes) {
    Cluster c = v100(4);
    c.hierarchical = true;
    c.hop_latency = 1e-6;
    // 7 steps each way inside; 3 each way between, of an eighth of the bytes by each rank
    expect_time(c, 64 * MiB, 4, 8, "hierarchical ",
                8.4 + 14 * 3.4 + 6 * (14 + 2) + 67108864 * 1.75 / 130e3 + 67108864 * 1.5 / 12e3);
    c.link = NodeLink::pcie;
    expect_time(c, 64 * MiB, 4, 8, "hierarchical ",
                8.4 + 14 * 5.7 + 6 * (14 + 2) + 67108864 * 1.75 / 130e3 + 67108864 * 1.5 / 12e3);
    EXPECT_STREQ(all_reduce_time(c, 64 * MiB, 1, 8).algorithm, "ring");
}

/// Returns the time that all_reduce_time models without a table.
double modelled(Cluster c, double bytes, int nodes, int ranks_per_node) {
    c.all_reduces.clear();
    return all_reduce_time(c, bytes, nodes, ranks_per_node).seconds;
}

TEST(AllReduceTime, OfAMeasuredTableIsWhatWasMeasured) {
    Cluster c = v100(4);
    // unsorted; includes sums of another number of ranks, and of one rank
    c.all_reduces = {
        {2, 8, 16 * MiB, 4e-3}, {1, 8, MiB, 1e-4}, {2, 8, MiB, 1e-3}, {2, 4, MiB, 9e-4}, {1, 1, MiB, 5e-6}};
    const AllReduceTime there = all_reduce_time(c, MiB, 2, 8);
    EXPECT_TRUE(there.measured);
    EXPECT_DOUBLE_EQ(there.seconds, 1e-3);
    EXPECT_DOUBLE_EQ(all_reduce_time(c, 16 * MiB, 2, 8).seconds, 4e-3);
    // Between, a line in logarithms: time goes with the square root of the size. 4 MiB are
    // half-way.
    EXPECT_NEAR(all_reduce_time(c, 4 * MiB, 2, 8).seconds, 2e-3, 1e-12);
    EXPECT_NEAR(all_reduce_time(c, 2 * MiB, 2, 8).seconds, 1e-3 * std::sqrt(2), 1e-12);
    // Below the table: the latency. Above it: proportional to the size.
    EXPECT_NEAR(all_reduce_time(c, 1024, 2, 8).seconds, 1e-3, 1e-12);
    EXPECT_NEAR(all_reduce_time(c, 48 * MiB, 2, 8).seconds, 12e-3, 1e-12);
    // For 4 ranks per node the table of 4 ranks per node is used.
    EXPECT_NEAR(all_reduce_time(c, MiB, 2, 4).seconds, 9e-4, 1e-12);
}

TEST(AllReduceTime, OfAMeasuredTableIsCarriedByTheModelsRatio) {
    Cluster c = v100(8);
    c.all_reduces = {{2, 8, MiB, 1e-3}, {2, 8, 16 * MiB, 4e-3}};
    const double ratio = modelled(c, 4 * MiB, 4, 8) / modelled(c, 4 * MiB, 2, 8);
    EXPECT_GT(ratio, 1.05);
    EXPECT_NEAR(all_reduce_time(c, 4 * MiB, 4, 8).seconds, 2e-3 * ratio, 1e-12);
    EXPECT_TRUE(all_reduce_time(c, 4 * MiB, 4, 8).measured);
    // Given tables of 2 and of 16 nodes, 8 nodes use the latter. 4 nodes, as near to 2 as to 8, use
    // the smaller.
    c.all_reduces.push_back({16, 8, 4 * MiB, 7e-3});
    EXPECT_NEAR(all_reduce_time(c, 4 * MiB, 8, 8).seconds,
                7e-3 * modelled(c, 4 * MiB, 8, 8) / modelled(c, 4 * MiB, 16, 8), 1e-12);
    c.all_reduces.back().nodes = 8;
    EXPECT_NEAR(all_reduce_time(c, 4 * MiB, 4, 8).seconds, 2e-3 * ratio, 1e-12);
}

TEST(AllReduceTime, OfOneNodeSaysNothingAboutSeveralNorTheOtherWayRound) {
    Cluster c = v100(4);
    c.all_reduces = {{1, 8, 4 * MiB, 1e-2}};
    EXPECT_FALSE(all_reduce_time(c, 4 * MiB, 2, 8).measured);
    EXPECT_DOUBLE_EQ(all_reduce_time(c, 4 * MiB, 2, 8).seconds, modelled(c, 4 * MiB, 2, 8));
    EXPECT_TRUE(all_reduce_time(c, 4 * MiB, 1, 4).measured);
    EXPECT_NEAR(all_reduce_time(c, 4 * MiB, 1, 4).seconds,
                1e-2 * modelled(c, 4 * MiB, 1, 4) / modelled(c, 4 * MiB, 1, 8), 1e-12);
    c.all_reduces = {{2, 8, 4 * MiB, 1e-2}};
    EXPECT_FALSE(all_reduce_time(c, 4 * MiB, 1, 8).measured);
    c.all_reduces = {{1, 1, 4 * MiB, 1e-5}};
    EXPECT_FALSE(all_reduce_time(c, 4 * MiB, 1, 8).measured) << "one rank sums nothing";
}

}  // namespace
}  // namespace convoy::test
