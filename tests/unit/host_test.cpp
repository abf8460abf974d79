// Records about a host, for generated systems and, compared with other programs, for this one.
#include "comm/host.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

std::map<std::string, std::string> facts(const std::string& root = "") {
    const Facts all = facts_of_host(root);
    return {all.begin(), all.end()};
}

std::string first_line(const std::string& command) {
    const std::string out = run(command).out;
    return out.substr(0, out.find('\n'));
}

TEST(Host, IsReadFromItsFiles) {
    const TempDir root;
    write_file(root.path("etc/os-release"), "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 16.04.6 LTS\"\n");
    write_file(root.path("proc/sys/kernel/ostype"), "Linux\n");
    write_file(root.path("proc/sys/kernel/osrelease"), "4.4.0-116-generic\n");
    std::string cpus;
    for (int i = 0; i < 4; ++i)
        cpus += "processor\t: " + std::to_string(i) + "\nmodel name\t: Intel(R) Xeon(R) Gold 5118 CPU @ 2.30GHz\n" +
                "physical id\t: " + std::to_string(i / 2) + "\n\n";
    write_file(root.path("proc/cpuinfo"), cpus);
    write_file(root.path("proc/meminfo"), "MemTotal:       395857920 kB\nMemFree:  1 kB\n");
    const auto f = facts(root.path());
    EXPECT_EQ(f.at("os"), "Ubuntu 16.04.6 LTS");
    EXPECT_EQ(f.at("kernel"), "Linux 4.4.0-116-generic");
    EXPECT_EQ(f.at("cpu"), "2 x Intel(R) Xeon(R) Gold 5118 CPU @ 2.30GHz, 4 processors");
    EXPECT_EQ(f.at("memory"), "377.5 GiB");  // 395857920 / 2^20
}

TEST(Host, WhatItsSystemDoesNotSayIsUnknown) {
    const TempDir empty;
    const auto f = facts(empty.path());
    for (const char* name : {"os", "kernel", "memory"}) EXPECT_EQ(f.at(name), "unknown") << name;
}

TEST(Host, ThisOneIsAsOtherProgramsSay) {
    const auto f = facts();
    EXPECT_EQ(f.at("kernel"), first_line("echo $(uname -s) $(uname -r)"));
    EXPECT_EQ(f.at("os"), first_line(". /etc/os-release; echo \"$PRETTY_NAME\""));
    EXPECT_NE(f.at("cpu").find(", " + first_line("getconf _NPROCESSORS_ONLN") + " processor"), std::string::npos);
    std::istringstream said(first_line("hostname -I"));
    for (std::string address; said >> address;)
        EXPECT_NE((", " + f.at("ip") + ",").find(" " + address + ","), std::string::npos) << f.at("ip");
}

TEST(Host, TheJobIsThatOfTheScheduler) {
    for (const char* variable : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"}) unsetenv(variable);
    EXPECT_EQ(facts().at("job"), "none");
    setenv("PBS_JOBID", "17.head", 1);
    EXPECT_EQ(facts().at("job"), "PBS 17.head");
    setenv("SLURM_JOB_ID", "4711", 1);
    EXPECT_EQ(facts().at("job"), "Slurm 4711");
    unsetenv("PBS_JOBID");
    unsetenv("SLURM_JOB_ID");
}

TEST(Host, KnowsItsOwnNames) {
    for (const char* name : {"localhost", "127.0.0.1", "127.5.5.5", "node7", "node7.cluster"})
        EXPECT_TRUE(is_this_host(name, "node7.cluster")) << name;
    for (const char* loop : {"127.0.0.1", "127.1.2.3", "::1"}) EXPECT_TRUE(is_this_host(loop, "node7")) << loop;
    for (const std::string& address : own_addresses()) EXPECT_TRUE(is_this_host(address, "node7")) << address;
    for (const char* name : {"node8", "192.0.2.7", "nobody.invalid"}) EXPECT_FALSE(is_this_host(name, "node7")) << name;
}

}  // namespace
}  // namespace convoy::test
