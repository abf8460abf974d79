// Limits on memory, read from generated /proc and /sys trees of every kind, and what ranks may take
// under several limits.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/memory.h"
#include "base/memory_budget.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

constexpr size_t mib = size_t(1) << 20;

/// A node without control groups and shell limits; tests add their own.
class MemoryLimits : public testing::Test {
protected:
    void SetUp() override {
        put("/proc/meminfo", "MemTotal:  16384 kB\nMemFree:    1024 kB\nMemAvailable:    8192 kB\n");
        put("/proc/self/limits", limits("unlimited", "unlimited"));
        put("/proc/self/status", "Name:\tconvoy\nVmPeak:\t  9000 kB\nVmSize:\t    2048 kB\nVmData:\t    1024 kB\n");
    }
    static std::string limits(const std::string& address_space, const std::string& data) {
        return "Limit                     Soft Limit           Hard Limit           Units     \n"
               "Max data size             " +
               data +
               "            unlimited            bytes     \n"
               "Max stack size            8388608              unlimited            bytes     \n"
               "Max address space         " +
               address_space + "            unlimited            bytes     \n";
    }
    void put(const std::string& path, const std::string& text) { write_file(root_.path() + path, text); }
    /// Writes a group of version 2. The kernel can reclaim half of its use: file pages, and caches
    /// of names.
    void put_unified(const std::string& folder, const std::string& max, const std::string& high, size_t current) {
        put(folder + "/memory.max", max + "\n");
        put(folder + "/memory.high", high + "\n");
        put(folder + "/memory.current", std::to_string(current) + "\n");
        const std::string quarter = std::to_string(current / 4), eighth = std::to_string(current / 8);
        put(folder + "/memory.stat", "anon 1\nfile 2\ninactive_anon 77\ninactive_file " + quarter + "\nactive_file " +
                                         eighth + "\nslab_reclaimable " + eighth + "\n");
    }
    void put_first(const std::string& folder, size_t limit, size_t usage, size_t inactive) {
        put(folder + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
        put(folder + "/memory.usage_in_bytes", std::to_string(usage) + "\n");
        put(folder + "/memory.stat",
            "inactive_file 1\ntotal_inactive_file " + std::to_string(inactive) + "\ntotal_active_file 0\n");
        put(folder + "/memory.use_hierarchy", "1\n");
    }
    /// Returns all limits by name and bytes left, narrowest first.
    std::vector<std::pair<size_t, std::string>> all() {
        std::vector<std::pair<size_t, std::string>> found;
        for (const MemoryLimit& l : memory_limits(root_.path())) found.emplace_back(l.left, l.name);
        std::sort(found.begin(), found.end());
        return found;
    }
    void expect_least(size_t bytes, const std::string& name) {
        const auto found = all();
        ASSERT_FALSE(found.empty());
        EXPECT_EQ(found[0].first, bytes) << found[0].second;
        EXPECT_NE(found[0].second.find(name), std::string::npos) << found[0].second << " is not of " << name;
    }

    TempDir root_;
};

constexpr const char* unified_mount = "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* memory_mount = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

TEST(Memory, IsAvailableWithinTheAddressesOfAProcess) {
    EXPECT_TRUE(is_available(size_t(1) << 20));
    EXPECT_FALSE(is_available(size_t(1) << 62));
}

TEST_F(MemoryLimits, FreeMemoryOfTheNode) {
    expect_least(8 * mib, "this node");
    EXPECT_EQ(all().size(), 1u);
    EXPECT_TRUE(memory_limits(root_.path("nothing")).empty()) << "a system that tells nothing limits nothing";
}

TEST_F(MemoryLimits, ShellLimitsLessWhatIsUsed) {
    put("/proc/self/limits", limits("5242880", "unlimited"));
    expect_least(5 * mib - 2 * mib, "ulimit -v");
    put("/proc/self/limits", limits("unlimited", "4194304"));
    expect_least(4 * mib - 1 * mib, "ulimit -d");
    put("/proc/self/limits", limits("1048576", "unlimited"));
    expect_least(0, "ulimit -v");
}

TEST_F(MemoryLimits, UnifiedGroupsAndThoseAboveThem) {
    put("/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    put("/proc/self/mountinfo", std::string("23 1 0:21 / /proc rw - proc proc rw\n") + unified_mount);
    const std::string top = "/sys/fs/cgroup/slurm";
    put_unified(top + "/job_7/step_0", "max", "max", 4 * mib);
    put_unified(top + "/job_7", "max", "max", 4 * mib);
    expect_least(8 * mib, "this node");
    put_unified(top, std::to_string(6 * mib), "max", 4 * mib);
    expect_least(6 * mib - 2 * mib, "control group /slurm");
    put_unified(top + "/job_7", std::to_string(9 * mib), std::to_string(5 * mib), 4 * mib);
    expect_least(5 * mib - 2 * mib, "control group /slurm/job_7");
    EXPECT_EQ(all().size(), 3u);
    put_unified(top + "/job_7/step_0", std::to_string(mib), "max", 4 * mib);
    expect_least(0, "control group /slurm/job_7/step_0");
}

TEST_F(MemoryLimits, FirstVersionBesideAnEmptyUnifiedOne) {
    put("/proc/self/cgroup", "5:devices:/\n4:cpuset,memory:/job_7/task_1\n1:cpu:/elsewhere\n0::/\n");
    put("/proc/self/mountinfo", std::string("33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n") +
                                    memory_mount + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    const std::string top = "/sys/fs/cgroup/memory";
    put_first(top, 9223372036854771712u, 7 * mib, 0);
    put_first(top + "/job_7/task_1", 9223372036854771712u, 2 * mib, 0);
    put_first(top + "/job_7", 5 * mib, 3 * mib, mib);
    put_first(top + "/elsewhere", mib, mib, 0);
    expect_least(5 * mib - 2 * mib, "control group /job_7");
    put(top + "/job_7/memory.use_hierarchy", "0\n");
    expect_least(8 * mib, "this node");  // its limit does not apply to groups below
    put_first(top + "/job_7/task_1", 3 * mib, 2 * mib, 0);
    expect_least(mib, "control group /job_7/task_1");
}

// A container sees part of the hierarchy, and its own group by the host's path or as /.
TEST_F(MemoryLimits, ContainersSeeTheirOwnGroup) {
    put("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
    put("/proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put_first("/sys/fs/cgroup/memory", 4 * mib, mib, 0);
    put_first("/sys/fs/cgroup/memory/inner", 6 * mib, mib, 0);
    expect_least(3 * mib, "/docker/abc");
    for (const char* outside : {"4:memory:/docker/abcdef\n", "4:memory:/../other\n"}) {
        put("/proc/self/cgroup", outside);
        expect_least(3 * mib, "/docker/abc");
    }
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", unified_mount);
    put_unified("/sys/fs/cgroup", std::to_string(2 * mib), "max", 0);
    expect_least(2 * mib, "control group /");
}

/// Makes a part of a budget directly, without a limit in a tree.
MemoryBudget::Part part(size_t left, size_t ranks, const std::string& name, bool shared_counts = true) {
    return {{.left = left, .name = name, .remedy = "", .group = ranks > 1 ? name : "", .shared_counts = shared_counts},
            ranks};
}

TEST(MemoryBudget, RanksOfALimitGetEqualParts) {
    MemoryBudget budget({part(1000, 4, "the node"), part(300, 1, "the shell")}, 4);
    EXPECT_EQ(budget.left(), 250u);
    EXPECT_EQ(budget.left_to_share(), 300u) << "the shell's limit holds for every process that maps it";
    budget.take(100);
    EXPECT_EQ(budget.left(), 150u);
    EXPECT_EQ(budget.left_to_share(), 200u);
    budget.take_shared(80);  // the node has 600 - 80, the shell 200 - 80
    EXPECT_EQ(budget.left(), 120u);
    budget.give(100);
    EXPECT_EQ(budget.left(), 220u);
    budget.take(10000);
    EXPECT_EQ(budget.left(), 0u);
}

// Rank 0 alone copies for checkpoints: the node's other ranks take no memory for it.
TEST(MemoryBudget, WhatOneRankTakesIsTakenOnce) {
    MemoryBudget budget({part(1000, 4, "the node")}, 4);
    budget.take_or_fail(600, "a copy", "use less", MemoryOwner::this_rank);
    EXPECT_EQ(budget.left(), 100u);
    EXPECT_EQ("",
              problem_of_error(Exit::out_of_memory, {"another copy takes 1 MiB on", "0 MiB are left of the node"},
                               [&] { budget.take_or_fail(401, "another copy", "use less", MemoryOwner::this_rank); }));
    EXPECT_EQ(budget.left(), 100u) << "what failed took nothing";
}

TEST(MemoryBudget, SharedMemoryIsNoDataOfTheProcess) {
    MemoryBudget budget({part(100, 1, "data", false), part(1000, 2, "the node")}, 2);
    EXPECT_EQ(budget.left(), 100u);
    EXPECT_EQ(budget.left_to_share(), 1000u);
    budget.take_shared(500);
    EXPECT_EQ(budget.left(), 100u);
    EXPECT_EQ(budget.left_to_share(), 500u);
}

TEST(MemoryBudget, SaysWhatIsNeededWhatThereIsAndWhoLimits) {
    MemoryBudget::Part job = part(64 * mib, 2, "the limit of 160 MiB of control group /job_7");
    job.limit.remedy = "ask for more";
    MemoryBudget budget({job, part(900 * mib, 2, "the node")}, 2, "node3");
    EXPECT_EQ("",
              problem_of_error(Exit::out_of_memory,
                               {"a block takes 33 MiB for each of 2 ranks on node3",
                                "32 MiB each are left of the limit of 160 MiB", "/job_7", "use less, or ask for more"},
                               [&] { budget.take_or_fail(32 * mib + 1, "a block", "use less"); }));
    EXPECT_EQ(budget.left(), 32 * mib) << "what failed took nothing";
    budget.take_or_fail(32 * mib, "a block", "use less");
    EXPECT_EQ(budget.left(), 0u);
    EXPECT_EQ(MemoryBudget({}).left(), std::numeric_limits<size_t>::max());
}

}  // namespace
}  // namespace convoy::test
