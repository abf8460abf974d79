// Facts of a node, for generated /proc and /sys and, compared with other programs, for this one.
#include "accept/node_facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// A folder that stands for the root of a node.
struct MadeUpNode {
    TempDir dir;
    FileSystemSpace shared_memory{4.0 * (1 << 30), 3.0 * (1 << 30)};

    void write(const std::string& path, const std::string& text) const { write_file(dir.path(path), text + "\n"); }
    Facts facts() const {
        return node_facts({dir.path(), [this](const std::string& path) -> std::optional<FileSystemSpace> {
                               if (path != dir.path("dev/shm")) return std::nullopt;
                               return shared_memory;
                           }});
    }
    std::string fact(const std::string& name) const { return value_of(facts(), name); }
};

std::string first_line(const std::string& command) {
    const std::string out = run(command).out;
    return out.substr(0, out.find('\n'));
}

TEST(NodeFacts, ProcessorsAreCountedByCoreAndThread) {
    const MadeUpNode node;
    std::string cpus;
    for (int i = 0; i < 8; ++i)  // two packages of two cores of two threads
        cpus += "processor\t: " + std::to_string(i) +
                "\nmodel name\t: EPYC\nmicrocode\t: 0xa0011d1\nphysical id\t: " + std::to_string(i / 4) +
                "\ncore id\t\t: " + std::to_string(i % 2) + "\n\n";
    node.write("proc/cpuinfo", cpus);
    node.write("sys/devices/system/cpu/smt/active", "1");
    node.write("sys/devices/system/node/online", "0-1");
    node.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
    for (const char* cpu : {"cpu0", "cpu1", "cpu10"})
        node.write(std::string("sys/devices/system/cpu/") + cpu + "/cpufreq/scaling_governor", "performance");
    node.write("sys/devices/system/cpu/cpufreq/scaling_governor", "not of a processor");
    EXPECT_EQ(node.fact("cpu"), "2 x EPYC, 8 processors");
    EXPECT_EQ(node.fact("microcode"), "0xa0011d1");
    EXPECT_EQ(node.fact("cores"), "4");
    EXPECT_EQ(node.fact("SMT"), "on");
    EXPECT_EQ(node.fact("NUMA nodes"), "0-1");
    EXPECT_EQ(node.fact("clock source"), "tsc");
    EXPECT_EQ(node.fact("governor"), "performance");
    node.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave");
    EXPECT_EQ(node.fact("governor"), "performance and powersave");
}

TEST(NodeFacts, MemoryHasSizesPagesAndErrors) {
    const MadeUpNode node;
    node.write("proc/meminfo", "MemTotal:       395857920 kB\nHugePages_Total:      12\nHugepagesize:  2048 kB");
    node.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    node.write("sys/devices/system/edac/mc/mc0/ce_count", "3");
    node.write("sys/devices/system/edac/mc/mc1/ce_count", "4");
    node.write("sys/devices/system/edac/mc/mc1/ue_count", "0");
    EXPECT_EQ(node.fact("memory"), "377.5 GiB");
    EXPECT_EQ(node.fact("reserved huge pages"), "12");
    EXPECT_EQ(node.fact("transparent huge pages"), "madvise");
    EXPECT_EQ(node.fact("corrected memory errors"), "7");
    EXPECT_EQ(node.fact("uncorrected memory errors"), "0");
    EXPECT_EQ(node.fact("/dev/shm"), "4.000 GiB");
    EXPECT_EQ(node.fact("free in /dev/shm"), "3.000 GiB");
}

TEST(NodeFacts, TheNarrowestLimitsOfControlGroupsCount) {
    const MadeUpNode node;
    EXPECT_EQ(node.fact("CPU quota"), "") << "it is not known";
    node.write("proc/self/cgroup", "0::/slurm/job_7");
    node.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw");
    EXPECT_EQ(node.fact("CPU quota"), "none");
    EXPECT_EQ(node.fact("memory limit"), "none");
    node.write("sys/fs/cgroup/slurm/cpu.max", "400000 100000");
    node.write("sys/fs/cgroup/slurm/job_7/cpu.max", "max 100000");
    node.write("sys/fs/cgroup/slurm/memory.max", "max");
    node.write("sys/fs/cgroup/slurm/job_7/memory.max", std::to_string(3ull << 29));
    EXPECT_EQ(node.fact("CPU quota"), "4 processors");
    EXPECT_EQ(node.fact("memory limit"), "1.500 GiB");
}

TEST(NodeFacts, ModulesAreLoadedBuiltInOrNeither) {
    const MadeUpNode node;
    EXPECT_EQ(node.fact("module ib_core"), "") << "it is not known";
    node.write("proc/modules", "nvidia 9764864 58 nvidia_uvm, Live 0x0\nmlx5_core 2273280 1 mlx5_ib, Live 0x0");
    node.write("sys/module/nvidia/version", "580.65.06");
    node.write("sys/module/mlx5_core/version", "24.10-1.1.4");
    node.write("sys/module/ib_core/parameters/any", "1");
    EXPECT_EQ(node.fact("module nvidia"), "loaded") << "the driver's version is compared already";
    EXPECT_EQ(node.fact("module mlx5_core"), "24.10-1.1.4");
    EXPECT_EQ(node.fact("module ib_core"), "loaded");
    EXPECT_EQ(node.fact("module gdrdrv"), "not loaded");
}

TEST(NodeFacts, CardsHaveStatesRatesSlotsAndErrors) {
    const MadeUpNode node;
    const std::string ethernet = "sys/class/net/eth0/", verbs = "sys/class/infiniband/mlx5_0/";
    node.write("sys/class/net/lo/operstate", "unknown");
    node.write(ethernet + "operstate", "up");
    node.write(ethernet + "speed", "25000");
    node.write(ethernet + "mtu", "9000");
    node.write(ethernet + "device/current_link_width", "8");
    node.write(ethernet + "device/max_link_width", "16");
    node.write(ethernet + "statistics/rx_errors", "12");
    node.write(ethernet + "statistics/tx_errors", "0");
    node.write(verbs + "fw_ver", "28.39.1002");
    node.write(verbs + "ports/1/state", "4: ACTIVE");
    node.write(verbs + "ports/1/rate", "400 Gb/sec (4X NDR)");
    node.write(verbs + "ports/1/counters/symbol_error", "5");
    node.write(verbs + "ports/1/counters/link_downed", "1");
    node.write(verbs + "ports/2/state", "1: DOWN");
    node.write(verbs + "ports/2/rate", "10 Gb/sec (4X SDR)");
    EXPECT_EQ(node.fact("network cards"), "eth0, mlx5_0 port 1, mlx5_0 port 2");
    EXPECT_EQ(node.fact("eth0 state"), "up");
    EXPECT_EQ(node.fact("eth0 speed"), "25 Gb/s");
    EXPECT_EQ(node.fact("eth0 MTU"), "9000");
    EXPECT_EQ(node.fact("eth0 slot"), "x8 of x16");
    EXPECT_EQ(node.fact("eth0 errors"), "rx_errors 12");
    EXPECT_EQ(node.fact("mlx5_0 firmware"), "28.39.1002");
    EXPECT_EQ(node.fact("mlx5_0 port 1 state"), "ACTIVE");
    EXPECT_EQ(node.fact("mlx5_0 port 1 rate"), "400 Gb/sec (4X NDR)");
    EXPECT_EQ(node.fact("mlx5_0 port 1 errors"), "symbol_error 5, link_downed 1");
    EXPECT_EQ(node.fact("mlx5_0 port 2 state"), "DOWN");
    EXPECT_EQ(node.fact("mlx5_0 port 2 rate"), "") << "that of a port without a link means nothing";
}

TEST(NodeFacts, ImpossibleValuesAreNotKnown) {
    const MadeUpNode node;
    node.write("sys/class/net/eth0/device/current_link_width", "0");
    node.write("sys/class/net/eth0/device/max_link_width", "255");
    node.write("sys/class/net/eth1/device/current_link_width", "255");
    node.write("sys/class/net/eth1/device/max_link_width", "255");
    node.write("sys/class/net/eth2/device/current_link_width", "16");
    node.write("sys/class/net/eth2/device/max_link_width", "8");
    node.write("sys/class/net/eth0/speed", "-1");
    node.write("sys/class/net/eth0/statistics/rx_errors", "many");
    node.write("sys/devices/system/edac/mc/mc0/ce_count", "");
    node.write("sys/kernel/mm/transparent_hugepage/enabled", "]always[");
    for (const char* fact : {"eth0 slot", "eth1 slot", "eth2 slot", "eth0 speed", "eth0 errors",
                             "corrected memory errors", "transparent huge pages"})
        EXPECT_EQ(node.fact(fact), "") << fact;
    EXPECT_EQ(node.fact("network cards"), "eth0, eth1, eth2");
}

TEST(NodeFacts, TextsOfFilesCannotSteerATerminal) {
    const MadeUpNode node;
    node.write("sys/class/dmi/id/product_name", "box\x1b[2J\tone");
    EXPECT_EQ(node.fact("product"), "box\\x1b[2J\\x09one");
}

TEST(NodeFacts, AnEmptySystemHasNoneButItsAddressesAndJob) {
    const TempDir empty;
    const Facts facts = node_facts({empty.path(), space_at});
    for (const auto& [name, text] : facts) EXPECT_TRUE(name == "ip" || name == "job") << name << ": " << text;
    EXPECT_EQ(space_at(empty.path("missing")), std::nullopt);
}

TEST(NodeFacts, ThisNodeIsAsOtherProgramsSay) {
    const Facts facts = node_facts();
    EXPECT_EQ(value_of(facts, "kernel"), first_line("echo $(uname -s) $(uname -r)"));
    EXPECT_EQ(value_of(facts, "clock source"),
              first_line("cat /sys/devices/system/clocksource/clocksource0/current_clocksource"));
    EXPECT_EQ(value_of(facts, "/dev/shm").empty(), !std::filesystem::exists("/dev/shm"));
    const auto space = space_at("/");
    ASSERT_TRUE(space);
    EXPECT_EQ(space->bytes, std::stod(first_line("df --block-size=1 --output=size / | tail -n1")));
    EXPECT_LE(space->free, space->bytes);
}

}  // namespace
}  // namespace convoy::test
