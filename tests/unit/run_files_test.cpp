// The folders of a run whose paths are links, or are exchanged, against what lies where afterwards.
#include "train/run_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/log_file.h"
#include "run/run_folder.h"
#include "tests/support/cluster.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class RunFilesHeld : public testing::Test {
protected:
    std::string said(const std::function<void()>& action) const {
        testing::internal::CaptureStderr();
        action();
        return testing::internal::GetCapturedStderr();
    }
    void start(const std::string& path) const { RunFolder(path, true, false); }
    std::vector<std::string> names(const std::string& folder) const {
        std::vector<std::string> all;
        for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path().filename());
        std::sort(all.begin(), all.end());
        return all;
    }
    void make_link_of_another_user(const std::string& target, const std::string& path) const {
        fs::create_directory_symlink(target, path);
        ASSERT_EQ(::lchown(path.c_str(), 65534, 65534), 0);
    }
    using Names = std::vector<std::string>;

    TempDir dir_;
    const std::string run_ = dir_.path("run"), victim_ = dir_.path("victim"), moved_ = dir_.path("moved");
};

TEST_F(RunFilesHeld, FollowLinksOfTheirUserAndNameThem) {
    fs::create_directory(dir_.path("scratch"));
    fs::create_directory_symlink("scratch", run_);
    for (const std::string& path : {run_, run_ + "/"}) {
        const std::string warning = "warning: " + run_ + ": is a link: the run is written in " + dir_.path("scratch");
        EXPECT_EQ(said([&] { start(path); }), warning + "\n");
        EXPECT_EQ(names(dir_.path("scratch")), Names{"lock"});
    }
    const RunFiles files(run_);
    EXPECT_EQ(files.checkpoints().real_path(), dir_.path("scratch/checkpoints"));
    EXPECT_TRUE(files.moved().empty());
    fs::remove(run_);
    fs::create_directory_symlink("victim", run_);
    fs::create_directory(victim_);
    EXPECT_EQ(files.moved().size(), 1u);
    EXPECT_TRUE(files.moved().empty()) << "told once";
    write_file(files.run().path("mine"), "mine");
    EXPECT_EQ(names(victim_), Names{});
}

TEST_F(RunFilesHeld, FollowNoLinksOfOthers) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make links of another user";
    fs::create_directory(victim_);
    make_link_of_another_user(victim_, run_);
    const std::vector<std::string> words = {run_ + ": is a link that another user made", victim_};
    EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { start(run_); }));
    EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { start(run_ + "/"); }));
    EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { check_can_write(run_); }));
    EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { check_run_folder(run_, true, false); }));
    EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { LogFile log(run_ + "/rank-0000.log"); }));
    EXPECT_EQ(names(victim_), Names{});
}

TEST_F(RunFilesHeld, NameAFolderThatEveryoneMayRename) {
    start(run_);
    const auto warning = [&](int mode) {
        fs::permissions(dir_.path(), fs::perms(mode));
        return said([&] { start(run_); });
    };
    const std::string expected = "warning: " + run_ + ": every user of this machine can rename it";
    EXPECT_EQ(warning(0777).find(expected), 0u);
    EXPECT_NE(warning(0777).find("chmod +t " + dir_.path()), std::string::npos);
    for (const int mode : {01777, 0755, 0700}) EXPECT_EQ(warning(mode), "") << mode;
    EXPECT_EQ(warning(0775), "") << "a group that shares a folder knows it";
    fs::create_directories(dir_.path("open"));
    fs::create_directories(dir_.path("open/real"));
    fs::permissions(dir_.path("open"), fs::perms(0777));
    fs::create_directory_symlink(dir_.path("open/real"), dir_.path("link"));
    EXPECT_NE(said([&] { start(dir_.path("link")); }).find("chmod +t " + dir_.path("open")), std::string::npos)
        << "the folder that a link leads to counts";
}

TEST_F(RunFilesHeld, AreReplacedAndCleanedWhereTheyWereOpened) {
    for (const std::string& folder : {run_, victim_})
        for (const char* name : {"/step-000000000003.h5", "/step-000000000004.h5.partial", "/step-000000000005.h5.old"})
            write_file(folder + (folder == run_ ? "/checkpoints" : "") + name, "x");
    const RunFiles files(run_);
    ASSERT_TRUE(files.checkpoints_if_any());
    fs::rename(run_ + "/checkpoints", moved_);
    fs::create_directory_symlink(victim_, run_ + "/checkpoints");
    const Names before = names(victim_);
    EXPECT_EQ(set_aside_after(files, 2), Names{run_ + "/checkpoints/step-000000000003.h5.old"});
    EXPECT_EQ(names(moved_),
              (Names{"step-000000000003.h5.old", "step-000000000004.h5.partial", "step-000000000005.h5.old"}));
    fs::rename(moved_ + "/step-000000000003.h5.old", moved_ + "/step-000000000003.h5");
    remove_checkpoints(files);
    EXPECT_EQ(names(moved_), (Names{"step-000000000004.h5.partial", "step-000000000005.h5.old"}));
    EXPECT_EQ(names(victim_), before);
}

// A run folder from elsewhere may have a link to the checkpoints of another run.
TEST_F(RunFilesHeld, LinkedCheckpointsAreContinuedByTheirOwnRunAlone) {
    const std::string big = dir_.path("big"), gift = dir_.path("gift"), step = big + "/step-000000000020.h5";
    for (const std::string& folder : {big, run_, gift}) fs::create_directory(folder);
    for (const std::string& run : {run_, gift}) fs::create_directory_symlink(big, run + "/checkpoints");
    RunFiles(run_).checkpoints();
    EXPECT_EQ(read_file(big + "/run.txt"), run_ + "\n");
    write_file(step, "x");
    EXPECT_NO_THROW(RunFiles(run_).checkpoints()) << "its own";
    EXPECT_EQ("", problem_of_error(Exit::io, {gift + "/checkpoints: is a link to " + big, "of " + run_},
                                   [&] { check_run_folder(gift, true, false); }));
    fs::remove(big + "/run.txt");  // as before this file was written
    const std::string command = "echo " + run_ + " > " + big + "/run.txt";
    EXPECT_EQ("", problem_of_error(Exit::io, {"of an unknown run", command}, [&] { RunFiles(run_).run(); }));
    ASSERT_EQ(run(command).code, 0);
    EXPECT_NO_THROW(remove_checkpoints(RunFiles(run_)));
    EXPECT_EQ(names(big), Names{"run.txt"});
    const auto give = [&] { RunFiles(gift).checkpoints(); };
    EXPECT_EQ("", problem_of_error(Exit::io, {gift + "/checkpoints", run_}, give)) << "also without checkpoints";
    write_file(big + "/run.txt", "notes of the user\n");
    EXPECT_EQ("", problem_of_error(Exit::io, {gift + "/checkpoints"}, give));
    EXPECT_EQ(read_file(big + "/run.txt"), "notes of the user\n");
    fs::remove(big + "/run.txt");
    give();
    EXPECT_EQ(read_file(big + "/run.txt"), gift + "\n");
    record_fault("another run's checkpoints behind a link `checkpoints`", "refused", "as promised", 2);
}

// Without a mark at the start, two runs with links to one empty folder would write and remove
// checkpoints in it until each has written its first one.
TEST_F(RunFilesHeld, LinkedCheckpointsAreClaimedAtTheStart) {
    const std::string big = dir_.path("big"), gift = dir_.path("gift");
    for (const std::string& folder : {big, run_, gift}) fs::create_directory(folder);
    for (const std::string& run : {run_, gift}) fs::create_directory_symlink(big, run + "/checkpoints");
    const RunFiles mine(run_), other(gift);
    mine.run();
    other.run();
    mine.claim_checkpoints();
    EXPECT_EQ(read_file(big + "/run.txt"), run_ + "\n");
    EXPECT_EQ("", problem_of_error(Exit::io, {"of " + run_}, [&] { other.claim_checkpoints(); }));
    EXPECT_EQ("", problem_of_error(Exit::io, {"of " + run_}, [&] { other.checkpoints(); }));
    EXPECT_NO_THROW(mine.checkpoints());
    fs::rename(run_, moved_);  // another folder at the path does not make the link a folder
    fs::create_directories(run_ + "/checkpoints");
    write_file(big + "/run.txt", gift + "\n");
    EXPECT_EQ("", problem_of_error(Exit::io, {"of " + gift}, [&] { mine.checkpoints(); }));
    write_file(run_ + "/checkpoints/run.txt", gift + "\n");
    EXPECT_EQ("", problem_of_error(Exit::io, {run_ + "/checkpoints", "of " + gift}, [&] { RunFiles(run_).run(); }));
    fs::remove(big + "/run.txt");
    write_file(big + "/model.h5.partial", "a user's");
    EXPECT_EQ("", problem_of_error(Exit::io, {"of an unknown run"}, [&] { RunFiles(gift).run(); })) << "not empty";
}

// A run folder that was removed is made again; a folder that another user put there instead is
// not used.
TEST_F(RunFilesHeld, AreMadeAgainUnlessAnotherFolderIsThere) {
    const RunFiles files(run_);
    const auto write = [&] { return files.checkpoints().open_new("file").valid(); };
    EXPECT_TRUE(write());
    fs::remove_all(run_ + "/checkpoints");
    EXPECT_TRUE(write());
    fs::remove_all(run_);
    EXPECT_TRUE(write());
    EXPECT_TRUE(fs::exists(run_ + "/checkpoints/file"));
    EXPECT_TRUE(files.moved().empty());
    write_file(victim_ + "/keep", "theirs");
    fs::remove_all(run_ + "/checkpoints");
    fs::rename(victim_, run_ + "/checkpoints");
    EXPECT_EQ("", problem_of_error(Exit::io, {run_ + "/checkpoints: was removed, and another folder"}, write));
    fs::remove_all(run_ + "/checkpoints");
    fs::create_directory(victim_);
    fs::create_directory_symlink(victim_, run_ + "/checkpoints");
    EXPECT_EQ("", problem_of_error(Exit::io, {run_ + "/checkpoints: is a symbolic link"}, write));
    fs::remove(run_ + "/checkpoints");
    fs::remove_all(run_);
    write_file(run_ + "/keep", "theirs");
    for (const char* attempt : {"first", "second"})
        EXPECT_EQ("", problem_of_error(Exit::io, {run_ + ": was removed, and another folder"}, write)) << attempt;
    EXPECT_EQ(names(run_), Names{"keep"});
    EXPECT_EQ(names(victim_), Names{});
    fs::remove(run_ + "/keep");
    fs::permissions(run_, fs::perms::all);
    EXPECT_EQ("", problem_of_error(Exit::io, {run_ + ": was removed, and another folder"}, write)) << "open to all";
    fs::permissions(run_, fs::perms::owner_all);
    EXPECT_TRUE(write());
}

TEST_F(RunFilesHeld, LogsInAFolderOfOthersAreWarnedOf) {
    fs::create_directory(victim_);
    fs::permissions(victim_, fs::perms::all);
    EXPECT_NE(warning_of_log_folder(victim_).find("every user of this machine can change what this run writes"),
              std::string::npos);
    EXPECT_TRUE(warning_of_log_folder(victim_).ends_with("or choose another --log-dir"));
    if (geteuid() != 0) GTEST_SKIP() << "needs root for a folder of another user";
    fs::permissions(victim_, fs::perms(0755));
    ASSERT_EQ(chown(victim_.c_str(), 12345, 12345), 0);
    EXPECT_NE(warning_of_log_folder(victim_).find("belongs to another user (uid 12345)"), std::string::npos);
}

TEST_F(RunFilesHeld, LogsGoWhereTheLinkLedAtTheStart) {
    for (const std::string& folder : {dir_.path("logs"), victim_}) fs::create_directory(folder);
    fs::create_directory_symlink(dir_.path("logs"), run_);
    EXPECT_EQ(note_on_log_link(run_ + "/"), run_ + "/: is a link: logs are written in " + dir_.path("logs"));
    EXPECT_EQ(note_on_log_link(victim_), "");
    EXPECT_EQ(warning_of_log_folder(victim_), "");
    LogFile log(log_path(run_, 0));
    fs::remove(run_);
    fs::create_directory_symlink(victim_, run_);
    EXPECT_TRUE(log.add("line"));
    EXPECT_EQ(read_file(dir_.path("logs/rank-0000.log")), "line\n");
    EXPECT_EQ(names(victim_), Names{});
    fs::create_symlink(dir_.path("logs/rank-0000.log"), victim_ + "/rank-0000.log");
    EXPECT_EQ("", problem_of_error(Exit::io, {victim_, "symbolic link"}, [&] { LogFile link(log_path(victim_, 0)); }));
}

}  // namespace
}  // namespace convoy::test
