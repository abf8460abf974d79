// Other processes that take processor time: generated readings of /proc, and a process that spins.
#include "accept/busy_processes.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>

#include "comm/binding.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// Returns a line of /proc/PID/stat with these ticks of user and system time.
std::string stat_line(int pid, const std::string& program, long user, long system) {
    return std::to_string(pid) + " (" + program + ") R 1 1 1 0 -1 4194560 7 7 0 0 " + std::to_string(user) + " " +
           std::to_string(system) + " 0 0 20 0 1 0 5255 4544 9\n";
}

TEST(BusyProcesses, TimesAreThoseOfUserAndSystem) {
    const TempDir root;
    write_file(root.path("proc/71/stat"), stat_line(71, "a) R (b", 300, 50));
    write_file(root.path("proc/70/stat"), stat_line(70, "a\nb) R", 20, 0));  // a name that hides from readers of lines
    write_file(root.path("proc/72/stat"), "cut off");
    write_file(root.path("proc/73/status"), "no stat");
    write_file(root.path("proc/self/stat"), stat_line(71, "not a number", 1, 1));
    auto all = process_times(root.path());
    ASSERT_EQ(all.size(), 2u);
    if (all[0].pid == 70) std::swap(all[0], all[1]);  // folders are listed in any order
    EXPECT_EQ(all[1].program, "a\\x0ab) R");
    EXPECT_DOUBLE_EQ(all[1].seconds, 20.0 / double(sysconf(_SC_CLK_TCK)));
    EXPECT_EQ(all[0].pid, 71);
    EXPECT_EQ(all[0].program, "a) R (b");
    EXPECT_DOUBLE_EQ(all[0].seconds, 350.0 / double(sysconf(_SC_CLK_TCK)));
    EXPECT_TRUE(process_times(root.path("missing")).empty());
}

TEST(BusyProcesses, AreThoseThatUsedATenthOfAProcessor) {
    const std::vector<ProcessTime> before = {{1, "init", 100}, {5, "convoy", 7}, {6, "stress", 1}, {8, "idle", 3}},
                                   after = {{1, "init", 100.01},
                                            {5, "convoy", 8},
                                            {6, "stress", 1.4},
                                            {8, "idle", 3},
                                            {9, "new", 0.3}};
    const auto busy = busy_between(before, after, 0.5, {{5, "convoy", 0}, {6, "convoy", 0}});
    ASSERT_EQ(busy.size(), 2u) << "6 is a pid of the job, but on another node";
    EXPECT_EQ(busy[0].program, "stress");
    EXPECT_NEAR(busy[0].processors, 0.8, 1e-9);
    EXPECT_EQ(busy[1].program, "new");
    EXPECT_NEAR(busy[1].processors, 0.6, 1e-9);
}

TEST(BusyProcesses, DisturbOnlyTheProcessorsTheyMayUse) {
    const TempDir root;
    write_file(root.path("proc/6/status"), "Name:\tstress\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n");
    write_file(root.path("proc/7/status"), "Name:\tjob\nCpus_allowed_list:\t8-15,24\n");
    EXPECT_EQ(processors_of("7", root.path()), "8-15,24");
    const auto sharing_with = [&](const std::string& processors) {
        std::string pids;
        for (const BusyProcess& process :
             sharing({{6, "stress", 1}, {7, "job", 8}, {8, "gone", 1}}, processors, root.path()))
            pids += std::to_string(process.pid) + " ";
        return pids;
    };
    EXPECT_EQ(sharing_with("0-3"), "6 8 ") << "8 may run anywhere";
    EXPECT_EQ(sharing_with("7,24-31"), "6 7 8 ");
    EXPECT_EQ(sharing_with("16-23"), "8 ");
    cpu_set_t own;
    ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    EXPECT_EQ(hwloc_bitmap_weight(cpu_set(processors_of("self")).get()), CPU_COUNT(&own));
}

TEST(BusyProcesses, AreNamedIfTheyDisturb) {
    EXPECT_EQ(disturbance_by({}, 2), "");
    EXPECT_EQ(disturbance_by({{6, "stress", 0.4}}, 2), "");
    EXPECT_EQ(disturbance_by({{6, "stress", 1.9}}, 2), "stress (pid 6) uses 1.9 processors");
    EXPECT_EQ(disturbance_by({{6, "stress", 1.9}}, 128), "") << "less than a tenth of the node";
    EXPECT_EQ(disturbance_by({{6, "stress", 1.5}, {7, "make", 0.5}, {8, "cc1plus", 0.25}}, 2),
              "stress (pid 6) uses 1.5 processors and 2 more use 0.8");
}

TEST(BusyProcesses, ThisOneIsSeenUnlessItIsOwn) {
    const auto start = std::chrono::steady_clock::now();
    const auto before = process_times();
    volatile double x = 1;
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(200)) x = x * 1.0000001;
    const auto after = process_times();
    const auto is_seen = [&](const std::vector<ProcessTime>& own) {
        for (const BusyProcess& process : busy_between(before, after, 0.1, own))  // a tenth of 0.1 s: one tick
            if (process.pid == getpid()) return true;
        return false;
    };
    EXPECT_EQ(own_process().pid, getpid());
    EXPECT_TRUE(is_seen({}));
    EXPECT_FALSE(is_seen({own_process()}));
}

}  // namespace
}  // namespace convoy::test
