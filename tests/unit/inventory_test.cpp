// The inventory of a cluster: which nodes and GPUs are blamed for differing from the others, for
// clusters that tests make up, and that this node's inventory can be taken.
#include "accept/inventory.h"

#include <gtest/gtest.h>

#include "tests/support/support.h"
#include "tests/support/test_comm.h"
#include "tests/unit/made_up_cluster.h"

namespace convoy::test {
namespace {

TEST(Inventory, EqualNodesPassWhateverTheirAddressesAndSerialNumbers) {
    const LevelResult result = compare_inventories(cluster(16, 8));
    EXPECT_EQ(result.level, "inventory");
    EXPECT_EQ(result.outcome, Outcome::pass) << result.figure;
    EXPECT_EQ(result.figure, "16 nodes and 128 GPUs alike");
    EXPECT_EQ(result.expected, "the same on all nodes");
    EXPECT_TRUE(result.blamed.empty());
    EXPECT_EQ(result.details.size(), 16u + 128u) << "a line for each";
}

TEST(Inventory, ANodeAloneIsDescribed) {
    const LevelResult result = compare_inventories(cluster(1));
    EXPECT_EQ(result.outcome, Outcome::pass);
    EXPECT_EQ(result.figure, "1 node without fault");
    EXPECT_EQ(result.expected, "");
    ASSERT_EQ(result.details.size(), 1u);
    EXPECT_TRUE(result.details[0].starts_with("node01: kernel Linux 6.1; CPU EPYC, 64 processors; "))
        << result.details[0];
    EXPECT_EQ(compare_inventories({}).outcome, Outcome::pass);
}

TEST(Inventory, AMinorityIsComparedWithTheOthers) {
    const LevelResult result = with_node(16, 7, "driver", "580.65.06");
    EXPECT_EQ(result.outcome, Outcome::fail);
    EXPECT_EQ(result.figure, "node07: driver 580.65.06, the other 15 have 580.82.07");
    EXPECT_EQ(blamed(result), Texts{"node07: driver 580.65.06, the other 15 have 580.82.07 (drain)"});
    EXPECT_EQ(result.details[0], result.figure);
    EXPECT_EQ(blamed(with_node(3, 1, "nccl", "2.27.3")), Texts{"node01: NCCL 2.27.3, the other 2 have 2.26.2 (drain)"});
    for (const char* fact : {"driver", "cuda", "cudnn", "nccl", "mpi", "onednn", "kernel", "kernels"}) {
        auto nodes = cluster(3);
        for (size_t n = 0; n < 3; ++n) set(nodes[n].facts, fact, n == 2 ? "old" : "new");
        EXPECT_EQ(compare_inventories(nodes).outcome, Outcome::fail) << fact;
        EXPECT_EQ(hosts_to_drain({compare_inventories(nodes)}), Texts{"node03"}) << fact;
    }
}

TEST(Inventory, SeveralMinoritiesAreEachNamed) {
    auto nodes = cluster(7);
    set(nodes[0].facts, "driver", "580.65.06");
    set(nodes[4].facts, "driver", "580.65.06");
    set(nodes[5].facts, "driver", "570.00.01");
    EXPECT_EQ(blamed(compare_inventories(nodes)), (Texts{"node06: driver 570.00.01, 4 of 7 have 580.82.07 (drain)",
                                                         "node01: driver 580.65.06, 4 of 7 have 580.82.07 (drain)",
                                                         "node05: driver 580.65.06, 4 of 7 have 580.82.07 (drain)"}));
}

TEST(Inventory, ATieNamesBothSidesAndBlamesNeither) {
    for (const int count : {2, 4}) {
        auto nodes = cluster(count);
        for (int n = 0; n < count / 2; ++n) set(nodes[n].facts, "driver", "580.65.06");
        const LevelResult result = compare_inventories(nodes);
        EXPECT_EQ(result.outcome, Outcome::warn);
        EXPECT_TRUE(result.blamed.empty());
        EXPECT_EQ(result.figure, count == 2 ? "driver 580.65.06 on node01, 580.82.07 on node02"
                                            : "driver 580.65.06 on node01, node02, 580.82.07 on node03, node04");
    }
    auto nodes = cluster(3);  // three opinions
    set(nodes[0].facts, "nccl", "2.27");
    set(nodes[1].facts, "nccl", "2.28");
    EXPECT_EQ(compare_inventories(nodes).outcome, Outcome::warn);
    EXPECT_TRUE(compare_inventories(nodes).blamed.empty());
    nodes = cluster(10);  // half have the largest share, but no majority
    for (size_t n = 0; n < 5; ++n) set(nodes[n].facts, "nccl", "2." + std::to_string(n));
    EXPECT_TRUE(compare_inventories(nodes).blamed.empty());
}

TEST(Inventory, LongListsOfNamesAreCut) {
    auto nodes = cluster(32);
    for (size_t n = 0; n < 16; ++n) set(nodes[n].facts, "driver", "580.65.06");
    EXPECT_EQ(compare_inventories(nodes).figure,
              "driver 580.65.06 on node01, node02, node03 and 13 more, "
              "580.82.07 on node17, node18, node19 and 13 more");
}

TEST(Inventory, DifferencesThatOnlyCostSpeedWarn) {
    for (const auto& [fact, text] : Facts{{"governor", "schedutil"},
                                          {"clock source", "hpet"},
                                          {"memory", "495.5 GiB"},
                                          {"cpu", "Xeon"},
                                          {"/dev/shm", "64.000 GiB"}}) {
        const LevelResult result = with_node(4, 3, fact, text);
        EXPECT_EQ(result.outcome, Outcome::warn) << fact;
        ASSERT_EQ(result.blamed.size(), 1u) << fact << " is found once";
        EXPECT_EQ(result.blamed[0].host, "node03") << fact;
        EXPECT_FALSE(result.blamed[0].drain) << fact;
    }
}

TEST(Inventory, SizesOfMemoryNeedOnlyBeNearlyEqual) {
    EXPECT_EQ(with_node(4, 3, "memory", "503.4 GiB").outcome, Outcome::pass);
    EXPECT_EQ(with_node(2, 2, "memory", "503.4 GiB").outcome, Outcome::pass);
    EXPECT_EQ(blamed(with_node(4, 3, "memory", "471.9 GiB")),
              Texts{"node03: memory 471.9 GiB, the other 3 have 503.5 GiB"});
    EXPECT_TRUE(with_node(4, 3, "memory", "1007.0 GiB").blamed.empty()) << "three are not wrong to have less";
    EXPECT_EQ(with_node(4, 3, "memory", "1007.0 GiB").outcome, Outcome::warn);
    EXPECT_TRUE(with_node(2, 1, "memory", "252 GiB").blamed.empty()) << "neither of two is";
}

TEST(Inventory, NodesOfAnotherModelAreComparedAmongThemselves) {
    auto nodes = cluster(5);
    for (const size_t n : {3, 4}) {
        set(nodes[n].facts, "cpu", "Xeon");
        set(nodes[n].facts, "memory", "1007.0 GiB");
        set(nodes[n].facts, "governor", "schedutil");
    }
    const LevelResult result = compare_inventories(nodes);
    EXPECT_EQ(blamed(result), (Texts{"node04: CPU Xeon, 3 of 5 have EPYC, 64 processors",
                                     "node05: CPU Xeon, 3 of 5 have EPYC, 64 processors"}));
    set(nodes[4].facts, "driver", "580.65.06");
    EXPECT_EQ(compare_inventories(nodes).outcome, Outcome::fail) << "all models should have the same driver";
}

TEST(Inventory, WhatANodeDoesNotSayIsNotCompared) {
    EXPECT_EQ(with_node(3, 2, "kernel", "unknown").outcome, Outcome::pass);
    auto nodes = cluster(3);
    nodes[1].facts.clear();
    EXPECT_EQ(compare_inventories(nodes).outcome, Outcome::pass);
}

TEST(Inventory, ACardThatIsDownIsBlamedEvenOnOneOfTwoNodes) {
    for (const int count : {2, 3, 16})
        for (const char* state : {"down", "lowerlayerdown", "DOWN", "INIT"}) {
            const LevelResult result = with_node(count, 2, "eth0 state", state);
            EXPECT_EQ(result.outcome, Outcome::fail) << state;
            EXPECT_EQ(hosts_to_drain({result}), Texts{"node02"}) << state;
        }
    auto nodes = cluster(4);
    for (const size_t n : {0, 1, 2}) set(nodes[n].facts, "eth0 state", "down");
    EXPECT_EQ(compare_inventories(nodes).outcome, Outcome::warn) << "only one node has it in use";
    EXPECT_TRUE(compare_inventories(nodes).blamed.empty());
    set(nodes[3].facts, "eth0 state", "down");
    EXPECT_EQ(compare_inventories(nodes).outcome, Outcome::pass) << "nobody has it in use";
}

TEST(Inventory, OfTwoValuesTheWorseIsBlamedIfItFails) {
    auto nodes = cluster(2, 1);
    set(nodes[1].devices[0].facts, "ECC", "off");
    EXPECT_EQ(blamed(compare_inventories(nodes)), Texts{"node02 GPU 0: ECC off, the other has on (drain)"});
    nodes = cluster(4);
    for (size_t n = 0; n < 4; ++n) set(nodes[n].facts, "module gdrdrv", n == 1 ? "2.5.1" : "not loaded");
    EXPECT_TRUE(compare_inventories(nodes).blamed.empty()) << "the one that has it is not wrong";
    set(nodes[0].facts, "module gdrdrv", "2.5.1");
    EXPECT_TRUE(compare_inventories(nodes).blamed.empty()) << "a tie that only costs speed";
    set(nodes[2].facts, "module gdrdrv", "2.5.1");
    EXPECT_EQ(blamed(compare_inventories(nodes)), Texts{"node04: module gdrdrv not loaded, the other 3 have 2.5.1"});
}

TEST(Inventory, ACardThatOthersHaveIsMissed) {
    auto nodes = cluster(4);
    for (const size_t n : {0, 1, 3}) set(nodes[n].facts, "mlx5_0 port 1 state", "ACTIVE");
    EXPECT_EQ(blamed(compare_inventories(nodes)),
              Texts{"node03: mlx5_0 port 1 state missing, the other 3 have ACTIVE (drain)"});
    set(nodes[2].facts, "network cards", "");
    EXPECT_EQ(compare_inventories(nodes).outcome, Outcome::pass) << "its cards are not known";
    EXPECT_EQ(with_node(4, 3, "usb0 state", "up").outcome, Outcome::pass) << "a card more is no fault";
}

TEST(Inventory, SlowerLinksFail) {
    auto nodes = cluster(4);
    for (const size_t n : {0, 1, 2, 3}) {
        set(nodes[n].facts, "mlx5_0 port 1 rate", n == 1 ? "100 Gb/sec (1X NDR)" : "400 Gb/sec (4X NDR)");
        set(nodes[n].facts, "mlx5_0 slot", n == 2 ? "x8 of x16" : "x16 of x16");
    }
    EXPECT_EQ(blamed(compare_inventories(nodes)),
              (Texts{"node02: mlx5_0 port 1 rate 100 Gb/sec (1X NDR), the other 3 have 400 Gb/sec (4X NDR) (drain)",
                     "node03: mlx5_0 slot x8 of x16, the other 3 have x16 of x16 (drain)"}));
    EXPECT_TRUE(with_node(4, 3, "eth0 speed", "100 Gb/s").blamed.empty()) << "a faster one is not wrong";
}

TEST(Inventory, GpusOfAnotherModelHaveOtherLimits) {
    auto nodes = cluster(2, 4);
    for (DeviceInventory& device : nodes[1].devices) {
        set(device.facts, "gpu", "A100");
        set(device.facts, "power limit", "400 W");
        set(device.facts, "NVLinks", "12");
    }
    const LevelResult result = compare_inventories(nodes);
    EXPECT_EQ(result.outcome, Outcome::warn);
    EXPECT_EQ(result.figure,
              "GPU A100 on node02 GPU 0, node02 GPU 1, node02 GPU 2, node02 GPU 3, "
              "H100 on node01 GPU 0, node01 GPU 1, node01 GPU 2, node01 GPU 3");
    EXPECT_TRUE(result.blamed.empty());
}

TEST(Inventory, TheWorstFindingComesFirst) {
    auto nodes = cluster(4, 2);
    set(nodes[0].facts, "governor", "powersave");
    set(nodes[3].devices[1].facts, "uncorrected ECC errors", "2");
    const LevelResult result = compare_inventories(nodes);
    EXPECT_EQ(result.figure, "node04 GPU 1: 2 uncorrected ECC errors (and 1 more)");
    EXPECT_EQ(result.details[1], "node01: governor powersave, the other 3 have performance");
    nodes = cluster(2);
    set(nodes[0].facts, "os", "Debian 12");
    set(nodes[1].facts, "os", "Debian 13");
    set(nodes[1].facts, "free in /dev/shm", "0.003 GiB");
    EXPECT_EQ(compare_inventories(nodes).figure, "node02: 3 MiB free in /dev/shm, 32 needed (and 1 more)")
        << "a finding that names a node comes before one that does not";
}

TEST(Inventory, ReachesRankZeroUnchanged) {
    const RankInventory sent{.host = "node01",
                             .ranks = 4,
                             .node = {{"cpu", "EPYC; 2 x\tany\nline"}, {"empty", ""}, {"eth0 state", "up"}},
                             .device = {{"gpu", "H100"}, {"temperature", "41 °C"}}};
    const RankInventory received = decoded(encoded(sent));
    EXPECT_EQ(received.host, "node01");
    EXPECT_EQ(received.ranks, 4);
    EXPECT_EQ(received.node, (Facts{{"cpu", "EPYC; 2 x\\x09any\\x0aline"}, {"empty", ""}, {"eth0 state", "up"}}));
    EXPECT_EQ(received.device, sent.device);
    EXPECT_EQ(decoded(encoded({.host = "node02"})).host, "node02");
}

TEST(Inventory, NodesAreThoseOfTheRanksHosts) {
    const auto nodes = nodes_of(
        {{"b", 2, {{"kernel", "1"}}, {{"gpu", "x"}}}, {"a", 1, {{"kernel", "2"}}, {}}, {"b", 2, {}, {{"gpu", "y"}}}});
    ASSERT_EQ(nodes.size(), 2u);
    EXPECT_EQ(nodes[0].host, "b");
    EXPECT_EQ(nodes[0].facts, (Facts{{"kernel", "1"}}));
    ASSERT_EQ(nodes[0].devices.size(), 2u);
    EXPECT_EQ(nodes[0].devices[1].rank, 2);
    EXPECT_EQ(nodes[0].devices[1].facts, (Facts{{"gpu", "y"}}));
    EXPECT_EQ(nodes[1].host, "a");
}

TEST(Inventory, OfThisNodeCanBeTaken) {
    const LevelResult result =
        inventory_level(test_comm(), {{"mpi", "Open MPI v4.1.4"}, {"driver", "580.65.06, CUDA up to 13.0"}},
                        {{"kernel", "recorded twice"}, {"sums_over_ranks", "MPI"}}, {});
    EXPECT_EQ(result.level, "inventory");
    ASSERT_FALSE(result.details.empty());
    const std::string& row = result.details.back();
    EXPECT_TRUE(row.starts_with(test_comm().host() + ": ")) << row;
    for (const char* fact : {"MPI Open MPI v4.1.4", "driver 580.65.06;", "sums_over_ranks MPI", "; kernel Linux "})
        EXPECT_NE(row.find(fact), std::string::npos) << fact << " in " << row;
    EXPECT_EQ(row.find("recorded twice"), std::string::npos);
    EXPECT_GT(result.seconds, 0.3);
}

TEST(Inventory, CanBeTakenWhereNothingCanBeRead) {
    const TempDir empty;
    const LevelResult result = inventory_level(test_comm(), {}, {{"gpu", "H100"}}, {}, {.root = empty.path("missing")});
    EXPECT_EQ(blamed(result),
              Texts{test_comm().host() + " rank 0: NVML does not answer: errors, links and clocks were not checked"});
}

}  // namespace
}  // namespace convoy::test
