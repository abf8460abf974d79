// Faults that the inventory of a cluster shows without comparing nodes.
#include <gtest/gtest.h>

#include "tests/unit/made_up_cluster.h"

namespace convoy::test {
namespace {

TEST(InventoryFaults, ErrorsOfMemoryAndLinksNeedNoComparison) {
    EXPECT_EQ(blamed(with_node(1, 1, "uncorrected memory errors", "2")),
              Texts{"node01: 2 uncorrected memory errors (drain)"});
    EXPECT_EQ(with_node(1, 1, "uncorrected memory errors", "2").outcome, Outcome::fail);
    EXPECT_EQ(blamed(with_node(2, 2, "corrected memory errors", "9")), Texts{"node02: 9 corrected memory errors"});
    EXPECT_EQ(with_node(2, 2, "corrected memory errors", "0").outcome, Outcome::pass);
    EXPECT_EQ(blamed(with_node(2, 2, "eth0 errors", "rx_errors 12")), Texts{"node02: eth0 counted rx_errors 12"});
    EXPECT_EQ(with_node(2, 2, "eth0 errors", "rx_errors 12").outcome, Outcome::warn);
}

TEST(InventoryFaults, SettingsThatCostSpeedNeedNoComparison) {
    EXPECT_EQ(blamed(with_node(1, 1, "governor", "powersave")), Texts{"node01: governor powersave"});
    EXPECT_EQ(blamed(with_node(1, 1, "clock source", "hpet")), Texts{"node01: slow clock source hpet"});
    EXPECT_EQ(blamed(with_node(1, 1, "eth0 slot", "x8 of x16")), Texts{"node01: eth0 slot x8 of x16"});
    EXPECT_EQ(blamed(with_node(2, 1, "other processes", "stress (pid 6) uses 1.9 processors")),
              Texts{"node01: disturbed by stress"});
    auto nodes = cluster(4);
    for (NodeInventory& node : nodes) set(node.facts, "governor", "powersave");
    const LevelResult result = compare_inventories(nodes);
    EXPECT_EQ(result.outcome, Outcome::warn);
    EXPECT_EQ(result.figure, "governor powersave on all 4 nodes");
    EXPECT_TRUE(result.blamed.empty()) << "no node is worse than the others";
}

TEST(InventoryFaults, SharedMemoryMustHoldWhatNcclAndMpiNeed) {
    EXPECT_EQ(blamed(with_node(4, 3, "free in /dev/shm", "0.003 GiB")),
              Texts{"node03: 3 MiB free in /dev/shm, 32 needed"});
    EXPECT_EQ(with_node(4, 3, "free in /dev/shm", "0.063 GiB").outcome, Outcome::pass);
    auto nodes = cluster(2, 4);
    set(nodes[0].facts, "free in /dev/shm", "0.500 GiB");
    EXPECT_EQ(blamed(compare_inventories(nodes)), Texts{"node01: 512 MiB free in /dev/shm, 1024 needed"});
    nodes = cluster(1);
    nodes[0].ranks = 64;
    set(nodes[0].facts, "free in /dev/shm", "0.063 GiB");
    EXPECT_EQ(blamed(compare_inventories(nodes)), Texts{"node01: 65 MiB free in /dev/shm, 512 needed"});
}

TEST(InventoryFaults, FaultsOfAGpuDrainItsNode) {
    const std::pair<Facts::value_type, std::string> faults[] = {
        {{"uncorrected ECC errors", "2"}, "2 uncorrected ECC errors"},
        {{"row remapping pending", "yes"}, "row remapping pending"},
        {{"row remapping failed", "yes"}, "row remapping failed"},
        {{"page retirement pending", "yes"}, "page retirement pending"},
        {{"PCIe width", "8 of 16"}, "PCIe width 8 of 16"},
        {{"NVLinks", "17"}, "NVLinks 17, the other 7 have 18"},
        {{"ECC", "off"}, "ECC off, the other 7 have on"}};
    for (const auto& [fact, reason] : faults) {
        const LevelResult result = with_gpu(fact.first, fact.second);
        EXPECT_EQ(result.outcome, Outcome::fail) << reason;
        ASSERT_FALSE(result.blamed.empty()) << reason;
        EXPECT_EQ(blamed(result)[0], "node02 GPU 2: " + reason + " (drain)");
    }
}

TEST(InventoryFaults, WarningsAboutAGpuNameItAndDrainNothing) {
    const std::pair<Facts::value_type, std::string> warnings[] = {
        {{"lifetime uncorrected ECC errors", "1"}, "1 lifetime uncorrected ECC errors"},
        {{"corrected ECC errors", "3"}, "3 corrected ECC errors"},
        {{"remapped rows", "1"}, "1 remapped rows"},
        {{"PCIe replays", "4"}, "4 PCIe replays"},
        {{"NVLink errors", "5"}, "5 NVLink errors"},
        {{"throttled by", "power cap"}, "throttled by power cap"},
        {{"ECC after a restart", "off"}, "ECC will be off after a restart"},
        {{"power limit", "400 W"}, "power limit 400 W, the other 7 have 700 W"},
        {{"other processes", "process 4242 (3.0 GiB)"}, "in use by process 4242 (3.0 GiB)"},
        {{"temperature", ""}, "NVML does not answer: errors, links and clocks were not checked"}};
    for (const auto& [fact, reason] : warnings) {
        const LevelResult result = with_gpu(fact.first, fact.second);
        EXPECT_EQ(result.outcome, Outcome::warn) << reason;
        EXPECT_EQ(blamed(result), Texts{"node02 GPU 2: " + reason});
    }
    EXPECT_EQ(with_gpu("temperature", "80 °C").outcome, Outcome::pass);
    EXPECT_EQ(with_gpu("remapped rows", "0").outcome, Outcome::pass);
}

}  // namespace
}  // namespace convoy::test
