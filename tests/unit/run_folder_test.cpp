// Folders of runs that are given none: each gets its own, however many start at once.
#include "train/run_folder.h"

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace fs = std::filesystem;
namespace {

TEST(RunFolder, ThatManyAskForAtOnceIsMadeForEach) {
    const TempDir dir;
    constexpr size_t runs = 16;
    std::vector<std::string> made(runs);
    std::vector<std::thread> threads;
    for (std::string& path : made) threads.emplace_back([&] { path = make_run_folder(dir.path("output/linear-1")); });
    for (std::thread& t : threads) t.join();
    std::set<std::string> expected = {dir.path("output/linear-1")};
    for (size_t n = 2; n <= runs; ++n) expected.insert(dir.path("output/linear-1-" + std::to_string(n)));
    EXPECT_EQ(std::set<std::string>(made.begin(), made.end()), expected);
    for (const std::string& path : expected) EXPECT_TRUE(fs::is_directory(path)) << path;
}

TEST(RunFolder, ThatCannotBeMadeIsNamed) {
    const TempDir dir;
    write_file(dir.path("output"), "a file");
    EXPECT_EQ("", problem_of_error(Exit::io, {dir.path("output/linear-1"), "cannot be created", "--output"},
                                   [&] { make_run_folder(dir.path("output/linear-1")); }));
}

TEST(RunFolder, WhatAKilledRunWasWritingIsRemoved) {
    const TempDir dir;
    const std::string run = dir.path("run");
    for (const char* name : {"/metrics.h5.partial", "/checkpoints/step-000000000007.h5.partial", "/stalled/rank-0.txt",
                             "/checkpoints/step-000000000006.h5", "/mine.txt"})
        write_file(run + name, "x");
    for (const std::string& folder : {run, run + "/checkpoints"}) {
        estimated_seconds(folder, 0);  // makes a trial and removes it
        for (const auto& entry : fs::directory_iterator(folder)) EXPECT_FALSE(is_trial(entry.path().filename()));
        write_file(folder + "/.convoy-left/x", "x");
    }
    ASSERT_TRUE(is_trial(".convoy-left")) << "the name of what a killed run leaves";
    const RunFolder folder(run, true, false);
    std::set<std::string> left;
    for (const auto& entry : fs::recursive_directory_iterator(run)) left.insert(entry.path().filename());
    EXPECT_EQ(left, (std::set<std::string>{"checkpoints", "step-000000000006.h5", "mine.txt", "lock"}));
}

// What a run that is resumed or replaced has is its room.
TEST(RunFolder, ItsOwnFilesAreRoomForItsNextOnes) {
    const TempDir dir;
    constexpr size_t TiB = size_t(1) << 40;
    const size_t free = fs::space(dir.path()).available;
    write_file(dir.path("run/checkpoints/step-000000000001.h5"), "");
    fs::resize_file(dir.path("run/checkpoints/step-000000000001.h5"), 2 * TiB);  // a hole
    EXPECT_NO_THROW(check_room(dir.path("run"), free + TiB, "checkpoints"));
    EXPECT_EQ("", problem_of_error(Exit::io, {dir.path("run"), "for checkpoints, but", "--keep"},
                                   [&] { check_room(dir.path("run"), free + 3 * TiB, "checkpoints"); }));
    EXPECT_EQ("", problem_of_error(Exit::io, {dir.path("new/run")},
                                   [&] { check_room(dir.path("new/run"), free + TiB, "checkpoints"); }));
}

/// "output/mnist-linear-20260131-120000" of each of the next seconds.
std::vector<std::string> names_of_the_next(int seconds) {
    std::vector<std::string> names;
    const std::time_t now = std::time(nullptr);
    for (std::time_t t = now; t < now + seconds; ++t) {
        char stamp[32];
        std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", std::localtime(&t));
        names.push_back(std::string("output/mnist-linear-") + stamp);
    }
    return names;
}

// Three runs, in whichever second each starts, find that an earlier one has its name.
TEST(RunFolder, OfARunThatStartedInTheSameSecondIsLeftAlone) {
    const TempDir dir;
    make_data(dir.path("data"), 60, 20, "28x28x1");
    const std::vector<std::string> taken = names_of_the_next(60);
    for (const std::string& name : taken) write_file(dir.path(name + "/metrics.h5"), "an earlier run's");
    const std::string train =
        with_limit(sibling("convoy") + " train --model mnist-linear --batch-size 20 --max-steps 2 --data data", 60);
    const std::string here = "cd " + dir.path() + "; ";
    EXPECT_EQ("", failure(run(here + train + " --dry-run")));
    EXPECT_EQ("", failure(run(here + "for i in 1 2 3; do (" + train +
                              ") & jobs=\"$jobs $!\"; done; code=0; "
                              "for j in $jobs; do wait $j || code=$?; done; exit $code")));
    int runs = 0;
    for (const auto& entry : fs::directory_iterator(dir.path("output"))) {
        const std::string path = entry.path();
        const bool earlier = std::find(taken.begin(), taken.end(), fs::relative(path, dir.path())) != taken.end();
        EXPECT_EQ(fs::exists(path + "/model.h5"), !earlier) << path;
        EXPECT_EQ(read_file(path + "/metrics.h5") == "an earlier run's", earlier) << path;
        runs += !earlier;
    }
    EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace convoy::test
