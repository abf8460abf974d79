// Folders of runs that name none: each run gets its own, however many start at once.
#include "run/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
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
        estimated_seconds(HeldFolder(folder), 0);  // makes a trial file and removes it
        for (const auto& entry : fs::directory_iterator(folder)) EXPECT_FALSE(is_trial(entry.path().filename()));
        write_file(folder + "/.convoy-k1LLed/trial.h5.partial", "x");
    }
    ASSERT_TRUE(is_trial(".convoy-k1LLed")) << "the name of what a killed run leaves";
    const RunFolder folder(run, true, false);
    std::set<std::string> left;
    for (const auto& entry : fs::recursive_directory_iterator(run)) left.insert(entry.path().filename());
    EXPECT_EQ(left, (std::set<std::string>{"checkpoints", "step-000000000006.h5", "mine.txt", "lock"}));
}

/// Returns every path below a folder; folders end with "/", links with "@".
std::set<std::string> paths_in(const std::string& folder) {
    std::set<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        const char* kind = entry.is_symlink() ? "@" : entry.is_directory() ? "/" : "";
        paths.insert(entry.path().lexically_relative(folder).string() + kind);
    }
    return paths;
}

const std::set<std::string> files_of_users = {"thesis.pdf.partial",
                                              "step-7.h5.partial",
                                              "metrics.h5.partial.mine",
                                              ".convoy-notes/",
                                              ".convoy-notes/trial.h5",
                                              ".convoy-A1b2C3/",
                                              ".convoy-A1b2C3/mine.txt",
                                              "stalled/",
                                              "stalled/rank-0.txt.mine",
                                              "stalled/notes.txt",
                                              "checkpoints/",
                                              "checkpoints/big.iso.partial",
                                              "checkpoints/mine.h5",
                                              "checkpoints/step-000000000006.h5.old.mine",
                                              "checkpoints/.convoy-notes/",
                                              "checkpoints/.convoy-notes/x"};

void write_files_of_users(const std::string& folder) {
    for (const std::string& path : files_of_users)
        if (!path.ends_with("/")) write_file(folder + "/" + path, "a user's");
}

// Downloads in progress end with .partial, too.
TEST(RunFolder, FilesThatConvoyDoesNotMakeStay) {
    const TempDir dir;
    write_files_of_users(dir.path("run"));
    for (const char* name : {"model-best.h5.partial", "oom.partial", "stalled/rank-12.txt", ".convoy-A1b2C3/trial.h5"})
        write_file(dir.path("run/") + name, "Convoy's");
    {
        const RunFolder folder(dir.path("run"), true, false);
    }
    std::set<std::string> left = paths_in(dir.path("run"));
    EXPECT_EQ(left.erase("lock"), 1u);
    EXPECT_EQ(left, files_of_users);
}

TEST(RunFolder, ThatIsReplacedKeepsTheFilesOfUsers) {
    const TempDir dir;
    const std::string run = dir.path("run");
    write_files_of_users(run);
    for (const char* name :
         {"metrics.h5", "metrics.jsonl", "model.h5", "model-best.h5", "metrics.png", "checkpoints/step-000000000006.h5",
          "checkpoints/step-000000000007.h5.old", "checkpoints/step-000000000007.h5.old-2"})
        write_file(run + "/" + name, "the run's");
    {
        const RunFolder folder(run, false, true);
    }
    std::set<std::string> left = paths_in(run);
    EXPECT_EQ(left.erase("lock"), 1u);
    EXPECT_EQ(left, files_of_users);
    write_file(dir.path("plain/metrics.h5"), "x");
    write_file(dir.path("plain/checkpoints/step-000000000006.h5"), "x");
    const RunFolder folder(dir.path("plain"), false, true);
    EXPECT_EQ(paths_in(dir.path("plain")), (std::set<std::string>{"lock"}));
}

/// Runs `action` and returns what it prints on stderr.
std::string said(const std::function<void()>& action) {
    testing::internal::CaptureStderr();
    action();
    return testing::internal::GetCapturedStderr();
}

// A user may keep a model alone, or have files of the same names from another program.
TEST(RunFolder, AnyFileThatARunWouldReplaceIsRefused) {
    const TempDir dir;
    const std::string run = dir.path("run"), foreign = "{\"loss\": 1}\n", rank = "{\"kind\":\"rank\",\"rank\":0}\n",
                      half = "{\"kind\":\"sys";
    const std::vector<std::map<std::string, std::string>> kept = {
        {{"model.h5", "x"}, {"model-best.h5", "x"}},
        {{"model-best.h5", "x"}},
        {{"metrics.jsonl", foreign}},
        {{"metrics.jsonl", rank + "step 1\n"}},
        {{"metrics.jsonl", std::string("\0\0", 2)}},
        {{"metrics.h5", "x"}, {"metrics.jsonl", ""}},
        {{"metrics.h5", "x"}, {"metrics.jsonl", foreign}, {"metrics.png", "x"}},
        {{"metrics.h5", "x"}, {"metrics.jsonl", rank}, {"metrics.png", "x"}},
        {{"metrics.png", "x"}},
    };
    for (const auto& files : kept) {
        for (const auto& [name, bytes] : files) write_file(run + "/" + name, bytes);
        for (const std::function<void()>& start : {std::function([&] { RunFolder(run, false, false); }),
                                                   std::function([&] { check_run_folder(run, false, false); })})
            EXPECT_EQ("", problem_of_error(Exit::usage, {run + " already holds a run", "--overwrite"}, start));
        for (const auto& [name, bytes] : files) EXPECT_EQ(read_file(run + "/" + name), bytes) << name;
        EXPECT_NO_THROW(RunFolder(run, true, false)) << "it is resumed";
        for (const auto& [name, bytes] : files) EXPECT_EQ(read_file(run + "/" + name), bytes) << name;
        fs::remove_all(run);
    }
    for (const std::string& lines : {rank, rank + half, half + "\n" + rank, half}) {
        write_file(run + "/metrics.h5", "x");
        write_file(run + "/metrics.jsonl", lines);
        EXPECT_EQ(count(said([&] { RunFolder(run, false, false); }), "ended before its first step"), 1) << lines;
        EXPECT_EQ(paths_in(run), (std::set<std::string>{"lock"}));
    }
}

// Another user may pass on a run folder that holds such a link.
TEST(RunFolder, WhoseCheckpointsAreALinkIntoAnotherRunIsRefused) {
    const TempDir dir;
    write_file(dir.path("other/metrics.h5"), "another run");
    write_file(dir.path("other/checkpoints/step-000000000002.h5"), "its checkpoint");
    write_file(dir.path("other/checkpoints/step-000000000004.h5.partial"), "is being written");
    write_file(dir.path("run/metrics.h5"), "a run");
    const std::set<std::string> before = paths_in(dir.path("other"));
    for (const char* target : {"other/checkpoints", "other"}) {
        fs::remove(dir.path("run/checkpoints"));
        fs::create_directory_symlink(dir.path(target), dir.path("run/checkpoints"));
        const std::vector<std::string> words = {dir.path("run/checkpoints"), "link into another run",
                                                dir.path("other")};
        EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { RunFolder(dir.path("run"), true, false); }));
        EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { RunFolder(dir.path("run"), false, true); }));
        EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { check_can_write(dir.path("run")); }));
        EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { check_run_folder(dir.path("run"), true, false); }));
    }
    EXPECT_EQ(paths_in(dir.path("other")), before);
    EXPECT_EQ(paths_in(dir.path("run")), (std::set<std::string>{"metrics.h5", "checkpoints@"}));
}

TEST(RunFolder, SaysWhereALinkOfItsCheckpointsLeads) {
    const TempDir dir;
    write_file(dir.path("scratch/step-000000000002.h5.partial"), "x");
    write_file(dir.path("scratch/step-000000000002.h5"), "x");
    write_file(dir.path("scratch/thesis.partial"), "x");
    write_file(dir.path("scratch/run.txt"), dir.path("run") + "\n");
    fs::create_directory(dir.path("run"));
    fs::create_directory_symlink(dir.path("scratch"), dir.path("run/checkpoints"));
    EXPECT_NO_THROW(check_can_write(dir.path("run")));
    EXPECT_EQ(said([&] { RunFolder(dir.path("run"), true, false); }),
              "warning: " + dir.path("run/checkpoints") + ": is a link: checkpoints are written and removed in " +
                  dir.path("scratch") + "\n");
    EXPECT_EQ(paths_in(dir.path("scratch")),
              (std::set<std::string>{"run.txt", "step-000000000002.h5", "thesis.partial"}));
    said([&] { RunFolder(dir.path("run"), false, true); });
    EXPECT_EQ(paths_in(dir.path("scratch")), (std::set<std::string>{"run.txt", "thesis.partial"}));
    EXPECT_TRUE(fs::is_symlink(dir.path("run/checkpoints"))) << "the next run has its checkpoints there, too";
    fs::remove(dir.path("run/checkpoints"));
    fs::create_directory_symlink("elsewhere", dir.path("run/checkpoints"));
    fs::create_directory(dir.path("run/elsewhere"));
    EXPECT_EQ(count(said([&] { RunFolder(dir.path("run"), true, false); }), dir.path("run/elsewhere")), 1)
        << "in the run itself";
}

TEST(RunFolder, WhoseCheckpointsAreALinkOfAnotherUserIsRefused) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make links of another user";
    const TempDir dir;
    write_file(dir.path("run/metrics.h5"), "a run");
    write_file(dir.path("victim/step-000000000002.h5"), "x");
    fs::create_directory_symlink(dir.path("victim"), dir.path("run/checkpoints"));
    ASSERT_EQ(::lchown(dir.path("run/checkpoints").c_str(), 65534, 65534), 0);
    EXPECT_EQ("", problem_of_error(Exit::io, {dir.path("run/checkpoints"), "a link that another user made"},
                                   [&] { RunFolder(dir.path("run"), true, false); }));
    EXPECT_EQ(paths_in(dir.path("victim")), (std::set<std::string>{"step-000000000002.h5"}));
    EXPECT_FALSE(fs::exists(dir.path("run/lock")));
}

TEST(RunFolder, OfAnotherUserOrOpenToAllIsNamed) {
    const TempDir dir;
    const auto start = [&] { return said([&] { RunFolder(dir.path("run"), false, false); }); };
    const mode_t before = ::umask(0);
    EXPECT_EQ(count(start(), "warning: " + dir.path("run") + ": every user of this machine can change"), 1) << "made";
    ::umask(before);
    fs::remove_all(dir.path("run"));
    EXPECT_EQ(start(), "") << "it is made";
    EXPECT_EQ(start(), "");
    fs::permissions(dir.path("run"), fs::perms::all);
    EXPECT_EQ(count(start(), "warning: " + dir.path("run") + ": every user of this machine can change"), 1);
    fs::permissions(dir.path("run"), fs::perms(0775));
    EXPECT_EQ(start(), "") << "a group that shares a folder knows it";
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make folders of another user";
    ASSERT_EQ(::chown(dir.path("run").c_str(), 65534, 65534), 0);
    EXPECT_EQ(count(start(), "warning: " + dir.path("run") + ": belongs to another user (uid 65534)"), 1);
}

// A user who may read the file could lock it for reading.
TEST(RunFolder, IsLockedForThoseWhoWriteThere) {
    const TempDir dir;
    const std::string lock = dir.path("run/lock");
    const auto mode_with = [&](mode_t mask) {
        const mode_t before = ::umask(mask);
        RunFolder(dir.path("run"), false, false);
        ::umask(before);
        return fs::status(lock).permissions();
    };
    EXPECT_EQ(mode_with(022), fs::perms(0600));
    fs::permissions(lock, fs::perms(0644));
    EXPECT_EQ(mode_with(022), fs::perms(0600)) << "one of an earlier version";
    fs::remove(lock);
    write_file(dir.path("mine"), "");
    fs::permissions(dir.path("mine"), fs::perms(0664));
    fs::create_hard_link(dir.path("mine"), lock);
    EXPECT_EQ(mode_with(022), fs::perms(0664)) << "it is another file of the user, too";
    fs::remove(lock);
    EXPECT_EQ(mode_with(002), fs::perms(0620)) << "a group that shares a folder";
}

TEST(RunFolder, WhoseLinesAreAPipeIsRefused) {
    const TempDir dir;
    fs::create_directory(dir.path("run"));
    ASSERT_EQ(::mkfifo(dir.path("run/metrics.jsonl").c_str(), 0666), 0);
    const int reader = ::open(dir.path("run/metrics.jsonl").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_EQ("", problem_of_error(Exit::io, {dir.path("run/metrics.jsonl"), "a pipe or a device"},
                                   [&] { check_can_write(dir.path("run")); }));
    ::close(reader);
}

// The files of a run that is resumed or replaced count as free space.
TEST(RunFolder, ItsOwnFilesAreRoomForItsNextOnes) {
    const TempDir dir;
    constexpr size_t TiB = size_t(1) << 40;
    const size_t free = fs::space(dir.path()).available;
    write_file(dir.path("run/checkpoints/step-000000000001.h5"), "");
    fs::resize_file(dir.path("run/checkpoints/step-000000000001.h5"), 2 * TiB);  // a sparse file
    EXPECT_NO_THROW(check_room(dir.path("run"), free + TiB, "checkpoints"));
    EXPECT_EQ("", problem_of_error(Exit::io, {dir.path("run"), "for checkpoints, but", "--keep"},
                                   [&] { check_room(dir.path("run"), free + 3 * TiB, "checkpoints"); }));
    EXPECT_EQ("", problem_of_error(Exit::io, {dir.path("new/run")},
                                   [&] { check_room(dir.path("new/run"), free + TiB, "checkpoints"); }));
}

/// Returns "output/mnist-linear-20260131-120000" for each of the next seconds.
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

// Three runs start in any second, and each finds that an earlier one has its name.
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
