// All-reduces over nodes without LL128, as a cluster file's `ll128 = no` requests: times by hand.
#include <gtest/gtest.h>

#include <string>

#include "plan/all_reduce_time.h"

namespace convoy::test {
namespace {

constexpr double MiB = 1 << 20;

Cluster two_nodes(bool ll128) {
    return {.name = "two",
            .nodes = 2,
            .ranks_per_node = 8,
            .node_bandwidth = 230e9,
            .adapters = 8,
            .adapter_bandwidth = 24e9,
            .gpu = GpuGeneration::ampere,
            .cpu = CpuVendor::amd,
            .ll128 = ll128};
}
std::string algorithm(const AllReduceTime& t) { return std::string(t.algorithm) + " " + t.protocol; }

// A Simple tree at 2^17 * 64 bytes has 0.8 of 0.92 * 192 GB/s, and a byte passes twice. A ring has
// 28 hops inside, each of which an AMD processor delays by 6 us, and 2 between nodes. On Ampere its
// latency is 1.4 times as long.
TEST(Ll128, WithoutItSumsOverNodesAreSimple) {
    const AllReduceTime tree = all_reduce_time(two_nodes(false), 8 * MiB, 2, 8),
                        ring = all_reduce_time(two_nodes(false), 32 * MiB, 2, 8);
    EXPECT_EQ(algorithm(tree), "tree Simple");
    EXPECT_NEAR(tree.seconds * 1e6, 8.4 + 2 * (7 * 4 + 14) + 8 * MiB / (0.5 * 0.8 * 0.92 * 192e3), 1e-6);
    EXPECT_EQ(algorithm(ring), "ring Simple");
    EXPECT_NEAR(ring.seconds * 1e6, 1.4 * (8.4 + 28 * 6 + 2 * 14) + 32 * MiB * 1.875 / 192e3, 1e-6);
    EXPECT_EQ(algorithm(all_reduce_time(two_nodes(true), 8 * MiB, 2, 8)), "tree LL128");
    EXPECT_EQ(algorithm(all_reduce_time(two_nodes(true), 32 * MiB, 2, 8)), "ring LL128");
}

// NCCL checks each kind of link separately: inside a node NVLink still has LL128.
TEST(Ll128, InsideANodeNothingChanges) {
    for (double bytes = 64; bytes < 2048 * MiB; bytes *= 2) {
        const AllReduceTime with = all_reduce_time(two_nodes(true), bytes, 1, 8),
                            without = all_reduce_time(two_nodes(false), bytes, 1, 8);
        EXPECT_EQ(algorithm(with), algorithm(without)) << bytes;
        EXPECT_EQ(with.seconds, without.seconds) << bytes;
    }
    EXPECT_EQ(algorithm(all_reduce_time(two_nodes(false), 8 * MiB, 1, 8)), "ring LL128");
}

}  // namespace
}  // namespace convoy::test
