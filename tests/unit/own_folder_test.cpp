// Working folders compared with stat: their owner, who may write to them, and what is refused.
#include "base/own_folder.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/file_calls.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

mode_t mode_of(const std::string& path) {
    struct stat about{};
    EXPECT_EQ(::lstat(path.c_str(), &about), 0) << path;
    return about.st_mode & 07777;
}

class OwnFolders : public testing::Test {
protected:
    OwnFolder taken() const { return OwnFolder::make_or_take(path_, "choose another"); }
    std::string refusal(const std::vector<std::string>& words) const {
        return problem_of_error(Exit::usage, words, [&] { taken(); });
    }

    TempDir dir_;
    const std::string path_ = dir_.path("above/work");
};

TEST_F(OwnFolders, AreForTheirUserAloneWhateverTheUmask) {
    for (const mode_t umask : {0, 002, 022, 077}) {
        const mode_t before = ::umask(umask);
        const OwnFolder made = taken(), again = taken(), unique = OwnFolder::unique(path_ + "-", "");
        const std::string inner = made.subfolder("inner").shown();
        EXPECT_EQ(made.subfolder("inner").shown(), path_ + "/inner") << "it is there";
        ::umask(before);
        EXPECT_EQ(mode_of(path_), 0700u) << umask;
        EXPECT_EQ(mode_of(unique.path()), 0700u) << umask;
        EXPECT_TRUE(unique.path().starts_with(path_ + "-"));
        EXPECT_EQ(mode_of(inner), 0755u & ~umask) << "others may read what is published, if the umask says so";
        for (const OwnFolder* folder : {&made, &unique}) {
            folder->check();
            EXPECT_FALSE(folder->remove());
            EXPECT_FALSE(fs::exists(folder->path()));
        }
    }
}

TEST_F(OwnFolders, AreNoLinksFilesOrFoldersThatOthersMayWriteTo) {
    const std::string elsewhere = dir_.path("elsewhere");
    write_file(elsewhere + "/mine", "mine");
    fs::create_directories(dir_.path("above"));
    for (const char* target : {"../elsewhere", "../elsewhere/", "/nowhere", "work"}) {
        fs::create_symlink(target, path_);
        EXPECT_EQ("", refusal({path_ + ": is a symbolic link; choose another"})) << target;
        EXPECT_TRUE(fs::is_symlink(path_));
        fs::remove(path_);
    }
    write_file(path_, "a file");
    EXPECT_EQ("", refusal({path_ + ": is no folder; choose another"}));
    fs::remove(path_);
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    EXPECT_EQ("", refusal({path_ + ": is no folder; choose another"}));
    fs::remove(path_);
    fs::create_directory(path_);
    for (const mode_t mode : {0770, 0720, 0702, 0777, 02775, 01777}) {
        ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
        EXPECT_EQ("", refusal({path_ + ": others may write to it; choose another"})) << mode;
        EXPECT_EQ(mode_of(path_), mode);
    }
    for (const mode_t mode : {0700, 0755, 02750}) {  // other users cannot have put anything there
        ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
        EXPECT_EQ(taken().path(), path_) << mode;
    }
    EXPECT_EQ(read_file(elsewhere + "/mine"), "mine");
}

TEST_F(OwnFolders, AreNotThoseOfAnotherUser) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    fs::create_directories(path_);
    write_file(path_ + "/theirs", "theirs");
    ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
    for (const mode_t mode : {0700, 0755, 0777}) {
        ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
        EXPECT_EQ("", refusal({path_ + ": belongs to another user; choose another"})) << mode;
        EXPECT_EQ("", problem_of_error(Exit::usage, {"belongs to another user"},
                                       [&] { OwnFolder::existing(path_, "choose another"); }));
    }
    EXPECT_EQ(read_file(path_ + "/theirs"), "theirs");
    std::error_code error;
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path("above")), {}), 1) << "nothing else was left there";
}

TEST_F(OwnFolders, NoticeAnotherFolderInTheirPlace) {
    const OwnFolder folder = taken();
    write_file(path_ + "/mine", "mine");
    const auto noticed = [&] {
        EXPECT_EQ("", problem_of_error(Exit::io, {path_, "another folder"}, [&] { folder.check(); }));
        EXPECT_EQ("", problem_of_error(Exit::io, {path_, "another folder"}, [&] { folder.subfolder("x"); }));
        EXPECT_TRUE(folder.remove());
    };
    fs::rename(path_, path_ + "-moved");
    noticed();
    write_file(path_ + "/theirs", "theirs");
    noticed();
    EXPECT_EQ(read_file(path_ + "/theirs"), "theirs");
    fs::remove_all(path_);
    fs::create_symlink(path_ + "-moved", path_);
    noticed();
    EXPECT_EQ(read_file(path_ + "-moved/mine"), "mine");
    fs::remove(path_);
    fs::rename(path_ + "-moved", path_);
    folder.check();
}

// Behind the look at the path, where no look can notice it.
TEST_F(OwnFolders, MakeAndRemoveNothingInAnotherFolderThatTakesTheirPlaceMeanwhile) {
    const std::string mine = dir_.path("mine"), moved = dir_.path("moved");
    const OwnFolder folder = taken();
    write_file(path_ + "/deep/file", "");
    write_file(mine + "/file", "mine");
    const auto exchange = [&] {
        fs::rename(path_, moved);
        fs::rename(mine, path_);
    };
    const auto put_back = [&] {
        fs::rename(path_, mine);
        fs::rename(moved, path_);
        EXPECT_EQ(read_file(mine + "/file"), "mine");
        EXPECT_EQ(std::distance(fs::directory_iterator(mine), {}), 1);
    };
    {
        const AfterLook look(path_, exchange);
        EXPECT_EQ(folder.subfolder("inner").shown(), path_ + "/inner");
    }
    put_back();
    EXPECT_TRUE(fs::exists(path_ + "/inner"));
    {
        const AfterLook look(path_, exchange);
        EXPECT_TRUE(folder.remove()) << "the other one has its name, and is not empty";
    }
    put_back();
    EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(OwnFolders, AreThoseThatWereLookedAt) {
    const std::string moved = dir_.path("moved");
    const OwnFolder before = taken();
    const AfterLook look("work", [&] {
        fs::rename(path_, moved);
        fs::create_directory(path_);
    });
    EXPECT_EQ("", problem_of_error(Exit::io, {path_ + ": another folder has just taken its place"}, [&] { taken(); }));
}

TEST_F(OwnFolders, HaveNoLinksAsSubfolders) {
    const OwnFolder folder = taken();
    fs::create_directory(dir_.path("elsewhere"));
    fs::create_symlink(dir_.path("elsewhere"), path_ + "/link");
    write_file(path_ + "/file", "");
    for (const char* name : {"link", "file"})
        EXPECT_EQ("", problem_of_error(Exit::usage, {path_ + "/" + name + ": is no folder of the same user"},
                                       [&] { folder.subfolder(name); }));
    EXPECT_FALSE(folder.remove());
    EXPECT_TRUE(fs::exists(dir_.path("elsewhere"))) << "a link was followed";
}

TEST_F(OwnFolders, ThatCannotBeMadeAreErrors) {
    write_file(dir_.path("file"), "");
    for (const std::string& path : {dir_.path("file/work"), dir_.path(std::string(256, 'n'))}) {
        EXPECT_EQ("", problem_of_error(Exit::io, {path + ": cannot be created"},
                                       [&] { OwnFolder::make_or_take(path, "choose another"); }));
        EXPECT_EQ("", problem_of_error(Exit::io, {path, "cannot be created"},
                                       [&] { OwnFolder::unique(path + "-", "choose another"); }));
    }
    EXPECT_EQ("", problem_of_error(Exit::io, {dir_.path("none") + ": cannot be opened"},
                                   [&] { OwnFolder::existing(dir_.path("none"), "choose another"); }));
}

TEST_F(OwnFolders, LoseOnlyTheNamesThatAreGiven) {
    const OwnFolder folder = taken();
    write_file(path_ + "/made/deep/x", "");
    write_file(path_ + "/mine", "mine");
    EXPECT_TRUE(folder.remove_only({"made", "never made"})) << "the folder is not empty";
    EXPECT_FALSE(fs::exists(path_ + "/made"));
    EXPECT_EQ(read_file(path_ + "/mine"), "mine");
    EXPECT_FALSE(folder.remove_only({"mine"}));
    EXPECT_FALSE(fs::exists(path_));
}

// Simulates a file server that squashes root: files that root makes belong to another user.
TEST_F(OwnFolders, AreTakenWhereRootsFilesAreShownAsAnotherUsers) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    fs::create_directories(path_ + "-third");
    ASSERT_EQ(::chown((path_ + "-third").c_str(), 1000, 1000), 0);
    for (const std::string& folder : {dir_.path(), dir_.path("above")}) fs::permissions(folder, fs::perms(0777));
    ::setfsuid(65534);
    const std::string problem = problem_of_error(Exit::usage, {"-third: belongs to another user"},
                                                 [&] { OwnFolder::make_or_take(path_ + "-third", ""); });
    for (const char* time : {"made", "there already"}) EXPECT_EQ(taken().path(), path_) << time;
    fs::permissions(path_, fs::perms(0770));
    const std::string shared = problem_of_error(Exit::usage, {path_ + ": belongs to another user"}, [&] { taken(); });
    ::setfsuid(0);
    EXPECT_EQ("", problem);
    EXPECT_EQ("", shared) << "that files have another owner does not open it to others";
    struct stat about{};
    ASSERT_EQ(::stat(path_.c_str(), &about), 0);
    EXPECT_EQ(about.st_uid, 65534u);
}

}  // namespace
}  // namespace convoy::test
