// Quotas of processor time, read from generated /proc and /sys trees of both versions. If the test
// can make a control group, a training keeps to its quota.
#include "base/cpu_quota.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class CpuQuotas : public testing::Test {
protected:
    void put(const std::string& path, const std::string& text) { write_file(root_.path() + path, text); }
    /// Returns (processors, name) of all quotas.
    std::vector<std::pair<double, std::string>> all() {
        std::vector<std::pair<double, std::string>> found;
        for (const CpuQuota& q : cpu_quotas(root_.path())) found.emplace_back(q.processors, q.name);
        return found;
    }
    using List = std::vector<std::pair<double, std::string>>;

    TempDir root_;
};

TEST_F(CpuQuotas, OfUnifiedGroupsAndThoseAboveThem) {
    put("/proc/self/cgroup", "0::/kube/pod_7/c1\n");
    put("/proc/self/mountinfo", "25 1 0:22 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n");
    const std::string top = "/sys/fs/cgroup/kube";
    EXPECT_EQ(all(), List()) << "files that are not there grant everything";
    put(top + "/pod_7/c1/cpu.max", "max 100000\n");
    EXPECT_EQ(all(), List());
    put(top + "/pod_7/cpu.max", "250000 100000\n");
    put(top + "/cpu.max", "50000 50000\n");
    EXPECT_EQ(all(), List({{2.5, "the quota of 2.5 processors of control group /kube/pod_7"},
                           {1, "the quota of 1 processor of control group /kube"}}));
    put(top + "/cpu.max", "damaged\n");
    put(top + "/pod_7/cpu.max", "100000\n");
    EXPECT_EQ(all(), List());
}

TEST_F(CpuQuotas, OfTheFirstVersionWhereverItIsMounted) {
    put("/proc/self/cgroup", "5:memory:/other\n4:cpu,cpuacct:/docker/abc\n3:cpuset:/elsewhere\n0::/\n");
    put("/proc/self/mountinfo",
        "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "35 31 0:32 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
    const std::string folder = "/sys/fs/cgroup/cpu,cpuacct";
    put(folder + "/cpu.cfs_quota_us", "-1\n");
    put(folder + "/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(all(), List());
    put(folder + "/cpu.cfs_quota_us", "150000\n");
    EXPECT_EQ(all(), List({{1.5, "the quota of 1.5 processors of control group /docker/abc"}}));
    put(folder + "/cpu.cfs_period_us", "0\n");
    EXPECT_EQ(all(), List());
}

TEST_F(CpuQuotas, AreSharedByTheRanksOfAGroup) {
    const CpuQuota node{8, "all", "a"}, task{3, "task", "b"};
    EXPECT_FALSE(share_of_quotas({}, {"a", "b"}));
    EXPECT_EQ(share_of_quotas({node}, {"a"})->processors, 8);
    EXPECT_EQ(share_of_quotas({node}, {"a"})->why, "all");
    // four ranks, each in its own group within one group
    const std::vector<std::string> groups = {"a", "b", "a", "c", "a", "d", "a", "e"};
    EXPECT_EQ(share_of_quotas({task, node}, groups)->processors, 2);
    EXPECT_EQ(share_of_quotas({task, node}, groups)->why, "all, for 4 ranks");
    EXPECT_EQ(share_of_quotas({{1.5, "task", "b"}, node}, groups)->why, "task");
}

TEST_F(CpuQuotas, ArePartsOfProcessorsThatEachHaveAThread) {
    const auto threads = [](double cores, double quota) { return threads_for(cores, CpuShare{quota, "all"}); };
    EXPECT_EQ(threads(8, 2.0005), 2) << "what is rounded is no part of a processor";
    EXPECT_EQ(threads(8, 2.002), 3);
    EXPECT_EQ(threads_for(8, std::nullopt), 8);
    EXPECT_EQ(threads_for(2.5, std::nullopt), 2);
    EXPECT_EQ(threads_for(0.4, std::nullopt), 1);
    EXPECT_EQ(threads(8, 2), 2);
    EXPECT_EQ(threads(8, 2.1), 3);
    EXPECT_EQ(threads(8, 0.1), 1);
    EXPECT_EQ(threads(8, 64), 8);
    EXPECT_EQ(threads(2.5, 2.2), 2) << "the cores are fewer";
    EXPECT_EQ(threads(6, 8.0 / 3 * 3 / 2), 4) << "rounding errors are no part of a processor";
    EXPECT_FALSE(is_narrower(CpuShare{2.0 / 3, "all"}, 2.0 / 3));
    EXPECT_TRUE(is_narrower(CpuShare{1.5, "all"}, 2));
}

/// A group of version 1 that grants `microseconds` of each tenth of a second. It is removed at the
/// end of the scope.
class QuotaGroup {
public:
    explicit QuotaGroup(int microseconds) {
        std::string pattern = "/sys/fs/cgroup/cpu/convoy-test-XXXXXX";
        if (!::mkdtemp(pattern.data())) return;
        folder_ = pattern;
        if (run("echo " + std::to_string(microseconds) + " >" + folder_ + "/cpu.cfs_quota_us").code == 0) return;
        ::rmdir(folder_.c_str());
        folder_.clear();
    }
    ~QuotaGroup() {
        for (int tries = 0; !folder_.empty() && ::rmdir(folder_.c_str()) != 0 && tries < 50; ++tries) ::usleep(100'000);
    }
    QuotaGroup(const QuotaGroup&) = delete;
    explicit operator bool() const { return !folder_.empty(); }
    Finished run_inside(const std::string& command) const {
        return run("echo $$ >" + folder_ + "/cgroup.procs && " + command);
    }
    std::string name() const { return std::filesystem::path(folder_).filename(); }

private:
    std::string folder_;
};

TEST(CpuQuota, DecidesHowManyThreadsARankHas) {
    const int cores = std::atoi(run("nproc").out.c_str());
    if (cores < 2) GTEST_SKIP() << "one processor has one thread in any case";
    const QuotaGroup group(100000 * (cores - 1));
    if (!group) GTEST_SKIP() << "no control group can be made here; that takes root and cgroups of version 1";
    const TempDir dir;
    make_data(dir.path("data"), 60, 20, "28x28x1");
    const auto line = [&](int ranks, const std::string& more) {
        const Finished f = group.run_inside(
            launch_command(ranks, "train --model mnist-linear --batch-size 20 --max-steps 1 --data " +
                                      dir.path("data") + " --overwrite --output " + dir.path("run") + more));
        EXPECT_EQ("", failure(f));
        const size_t at = f.out.find("\nrank");
        return at == std::string::npos ? f.out : f.out.substr(at, f.out.find('\n', at + 1) - at);
    };
    const std::string quota = ", limited by the quota of " + std::to_string(cores - 1) +
                              (cores == 2 ? " processor" : " processors") + " of control group /" + group.name();
    const std::string alone = line(1, "");
    EXPECT_NE(alone.find(", " + std::to_string(cores - 1) + (cores == 2 ? " thread on" : " threads on")),
              std::string::npos)
        << alone;
    EXPECT_NE(alone.find(quota), std::string::npos) << alone;
    EXPECT_NE(line(2, "").find(quota + ", for 2 ranks"), std::string::npos) << line(2, "");
    const std::string given = line(1, " --threads 2");
    EXPECT_NE(given.find(", 2 threads on"), std::string::npos) << given;
    EXPECT_EQ(given.find("quota"), std::string::npos) << "what is asked for is not by the quota: " << given;
}

}  // namespace
}  // namespace convoy::test
