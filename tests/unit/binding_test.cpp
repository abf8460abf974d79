// Cores shared out among the ranks of a node, on machines described to hwloc.
#include "comm/binding.h"

#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

using Sets = std::vector<std::string>;

TEST(Binding, RanksOfANodeGetEqualPartsOfWholeCores) {
    const Machine machine("numa:2 core:4 pu:2");  // processors 0-15, two a core
    EXPECT_EQ(share_out(machine, {{"0-15", ""}}), Sets({"0-15"}));
    EXPECT_EQ(share_out(machine, {{"0-15", ""}, {"0-15", ""}}), Sets({"0-7", "8-15"}));
    EXPECT_EQ(share_out(machine, {{"0-15", ""}, {"0-15", ""}, {"0-15", ""}}), Sets({"0-3", "4-9", "10-15"}));
    EXPECT_EQ(share_out(machine, {{"2-5", ""}, {"2-5", ""}}), Sets({"2-3", "4-5"})) << "only what the launcher allows";
}

TEST(Binding, RanksAreNearTheirGpus) {
    const Machine machine("numa:2 core:4 pu:1");
    const std::string all = "0-7", first = "0-3", second = "4-7";
    EXPECT_EQ(share_out(machine, {{all, second}, {all, second}, {all, first}, {all, first}}),
              Sets({"4-5", "6-7", "0-1", "2-3"}));
    EXPECT_EQ(share_out(machine, {{all, second}, {all, first}, {all, second}}), Sets({"4-5", "0-3", "6-7"}));
    EXPECT_EQ(share_out(machine, {{first, second}}), Sets({first}))
        << "cores near the GPU that are not allowed do not count";
}

TEST(Binding, WhatTheLauncherToldApartStays) {
    const Machine machine("numa:1 core:4 pu:1");
    EXPECT_EQ(share_out(machine, {{"0-1", ""}, {"2-3", ""}}), Sets({"", ""}));
    EXPECT_EQ(share_out(machine, {{"0", ""}, {"1", ""}, {"2", ""}}), Sets({"", "", ""}));
}

TEST(Binding, MoreRanksThanCoresAreNotBound) {
    const Machine machine("numa:1 core:2 pu:2");
    EXPECT_EQ(share_out(machine, {{"0-3", ""}, {"0-3", ""}, {"0-3", ""}}), Sets({"", "", ""}));
}

TEST(Binding, ThisMachineIsSharedOutAndSaidSo) {
    TempDir dir;
    make_data(dir.path("data"), 60, 20, "28x28x1");
    const auto places = [&](const std::string& bind) {
        const std::string run_dir = dir.path(bind);
        const Finished f = launch(2, "train --model mnist-linear --batch-size 20 --data " + dir.path("data") +
                                         " --bind " + bind + " --output " + run_dir);
        EXPECT_EQ("", failure(f));
        return run("h5dump -d /ranks/placement -y -w 200 " + run_dir +
                   "/metrics.h5 | grep -o 'processors\\? [0-9][-0-9,]*'")
            .out;
    };
    const std::string bound = places("auto"), free = places("none");
    const size_t line = bound.find('\n'), line_free = free.find('\n');
    ASSERT_NE(line, std::string::npos) << bound;
    EXPECT_EQ(free.substr(0, line_free + 1), free.substr(line_free + 1))
        << "without --bind both ranks have all processors: " << free;
    if (std::stoi(run("nproc").out) < 2) GTEST_SKIP() << "one processor cannot be shared out";
    EXPECT_NE(bound.substr(0, line + 1), bound.substr(line + 1)) << bound;
}

}  // namespace
}  // namespace convoy::test
