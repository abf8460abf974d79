// Folders that are opened once, against what lies in them after their paths were exchanged.
#include "base/held_folder.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "data/hdf5.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class HeldFolders : public testing::Test {
protected:
    HeldFolders() {
        fs::create_directories(path_);
        write_file(elsewhere_ + "/keep", "theirs");
        write_file(elsewhere_ + "/tree/keep", "theirs");
    }
    /// Puts a link to `elsewhere_` in place of the folder.
    void exchange() const {
        fs::rename(path_, moved_);
        fs::create_symlink(elsewhere_, path_);
    }
    std::vector<std::string> names(const HeldFolder& folder) const {
        std::error_code error;
        std::vector<std::string> all = folder.names(error);
        EXPECT_FALSE(error) << error.message();
        std::sort(all.begin(), all.end());
        return all;
    }
    void expect_elsewhere_is_as_it_was() const {
        EXPECT_EQ(names(HeldFolder(elsewhere_)), (std::vector<std::string>{"keep", "tree"}));
        EXPECT_EQ(read_file(elsewhere_ + "/keep") + read_file(elsewhere_ + "/tree/keep"), "theirstheirs");
    }

    TempDir dir_;
    const std::string path_ = dir_.path("run"), moved_ = dir_.path("moved"), elsewhere_ = dir_.path("elsewhere");
};

TEST_F(HeldFolders, StayTheirsWhenTheirPathBecomesALink) {
    const HeldFolder folder(path_);
    EXPECT_TRUE(folder.is_still_at_its_path());
    EXPECT_EQ(::write(folder.open_new("first").fd(), "1", 1), 1);
    exchange();
    EXPECT_FALSE(folder.is_still_at_its_path());
    EXPECT_EQ(::write(folder.open_new("second").fd(), "2", 1), 1);
    folder.make_folder("inner");
    folder.make_folder("inner");
    const HeldFolder inner(folder, "inner");
    EXPECT_EQ(inner.shown("x"), path_ + "/inner/x") << "the user's path, which they know";
    EXPECT_EQ(::write(inner.open_new("third").fd(), "3", 1), 1);
    EXPECT_FALSE(folder.rename("first", "keep"));
    EXPECT_FALSE(folder.remove("second"));
    EXPECT_FALSE(folder.remove("tree")) << "there is none in this folder";
    EXPECT_FALSE(folder.remove_tree("tree"));
    EXPECT_FALSE(folder.sync());
    EXPECT_EQ(read_file(moved_ + "/keep"), "1");
    EXPECT_EQ(read_file(moved_ + "/inner/third"), "3");
    EXPECT_EQ(names(folder), (std::vector<std::string>{"inner", "keep"}));
    expect_elsewhere_is_as_it_was();
    fs::remove(path_);
    EXPECT_FALSE(folder.is_still_at_its_path()) << "there is nothing at its path";
    fs::rename(moved_, path_);
    EXPECT_TRUE(folder.is_still_at_its_path());
}

TEST_F(HeldFolders, GivePathsThatLibrariesMayUse) {
    const HeldFolder folder(path_);
    exchange();
    {
        h5::set_attribute(h5::create(folder.path("file.h5")), "format", "test");
    }
    EXPECT_TRUE(fs::exists(moved_ + "/file.h5"));
    EXPECT_EQ(h5::string_attribute(h5::open(folder.path("file.h5")), "format", "file.h5"), "test");
    expect_elsewhere_is_as_it_was();
}

TEST_F(HeldFolders, AreNoLinksUnlessTheseAreToBeFollowed) {
    const std::string link = dir_.path("link"), inside = path_ + "/link";
    fs::create_symlink(elsewhere_, link);
    fs::create_symlink(elsewhere_, inside);
    const HeldFolder folder(path_);
    const auto refusal = [&](const std::string& path, const std::function<void()>& open) {
        EXPECT_EQ("", problem_of_error(Exit::io, {path + ": is a symbolic link"}, open));
    };
    refusal(link, [&] { HeldFolder refused(link); });
    refusal(link, [&] { HeldFolder refused(link + "//"); });
    refusal(inside, [&] { HeldFolder refused(folder, "link"); });
    refusal(inside, [&] { folder.open_new("link"); });
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {inside}, [&] { folder.open_existing("link"); }));
    EXPECT_EQ("", problem_of_error(Exit::io, {inside}, [&] { folder.make_folder("link"); }));
    for (const HeldFolder& followed :
         {HeldFolder(link + "/", HeldFolder::IfLink::follow), HeldFolder(folder, "link", HeldFolder::IfLink::follow)}) {
        EXPECT_TRUE(followed.is_still_at_its_path());
        EXPECT_EQ(names(followed), (std::vector<std::string>{"keep", "tree"}));
    }
    EXPECT_FALSE(folder.remove_tree("link"));
    EXPECT_FALSE(fs::is_symlink(inside));
    expect_elsewhere_is_as_it_was();
}

TEST_F(HeldFolders, RemoveTreesWithoutFollowingLinks) {
    const HeldFolder folder(path_);
    write_file(path_ + "/tree/a/b/file", "mine");
    fs::create_directories(path_ + "/tree/empty");
    fs::create_symlink(elsewhere_, path_ + "/tree/link");
    fs::create_symlink(elsewhere_, path_ + "/tree/a/b/link");
    fs::create_symlink("/nowhere", path_ + "/tree/nowhere");
    ASSERT_EQ(::mkfifo((path_ + "/tree/pipe").c_str(), 0600), 0);
    EXPECT_TRUE(folder.remove("tree")) << "it is not empty";
    EXPECT_FALSE(folder.remove_tree("tree"));
    EXPECT_EQ(names(folder), std::vector<std::string>{});
    expect_elsewhere_is_as_it_was();
}

TEST_F(HeldFolders, GiveTheirOwnPathsWhereThereIsNoProc) {
    bool hidden = false;
    std::string there, refused;
    std::thread alone([&] {  // a thread may have separate mounts
        hidden = ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0 &&
                 ::umount2("/proc", MNT_DETACH) == 0;
        if (!hidden) return;
        const HeldFolder folder(path_);
        there = folder.path("file.h5");
        exchange();
        refused = problem_of_error(Exit::io, {path_ + ": was removed", "mount /proc"}, [&] { folder.path("file.h5"); });
    });
    alone.join();
    if (!hidden) GTEST_SKIP() << "needs the right to unmount /proc";
    EXPECT_EQ(there, path_ + "/file.h5");
    EXPECT_EQ("", refused);
}

TEST_F(HeldFolders, SayWhyTheyCannotBeOpenedOrWritten) {
    write_file(path_ + "/file", "mine");
    const HeldFolder folder(path_);
    const auto refusal = [&](const std::vector<std::string>& words, const std::function<void()>& action) {
        EXPECT_EQ("", problem_of_error(Exit::io, words, action));
    };
    refusal({path_ + "/none: cannot be opened: No such file"}, [&] { HeldFolder none(folder, "none"); });
    refusal({path_ + "/none: cannot be opened: No such file"}, [&] { HeldFolder none(path_ + "/none"); });
    refusal({path_ + "/file: cannot be opened: Not a directory"}, [&] { HeldFolder file(folder, "file"); });
    refusal({path_ + "/file: cannot be opened: Not a directory"}, [&] { HeldFolder file(path_ + "/file"); });
    refusal({path_ + "/file: cannot be written: File exists"}, [&] { folder.open_new("file"); });
    refusal({path_ + "/file: cannot be written: File exists"}, [&] { folder.make_folder("file"); });
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_ + "/none: cannot be read: No such file"},
                                   [&] { folder.open_existing("none"); }));
    EXPECT_TRUE(folder.rename("none", "file"));
    fs::remove_all(path_);
    refusal({path_ + "/new: cannot be written: No such file"}, [&] { folder.open_new("new"); });
    EXPECT_FALSE(folder.is_still_at_its_path());
}

}  // namespace
}  // namespace convoy::test
