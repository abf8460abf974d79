// convoy convert into a folder where everybody may make names, like /tmp: files that another user
// has put there are neither used nor written through, and new ones belong to this user.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/cluster.h"
#include "tests/support/images.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class SharedFolders : public testing::Test {
protected:
    void SetUp() override {
        const std::string reach = "setpriv --reuid=1000 --regid=1000 --clear-groups test -x " + sibling("convoy");
        if (::geteuid() != 0 || run(reach).code != 0)
            GTEST_SKIP() << "needs root, setpriv, and an executable that others can reach";
        for (const std::string& folder : {dir_.path(), shared_, sources_, mine_}) fs::create_directories(folder);
        fs::permissions(dir_.path(), fs::perms(0755));
        fs::permissions(shared_, fs::perms(01777));
        ASSERT_EQ(::chown(mine_.c_str(), 1000, 1000), 0);
        make_image_folder(sources_ + "/in", 2, 20);
        ASSERT_EQ(run("cd " + sources_ + " && tar czf in.tar.gz in && echo attacker code | gzip > x.tar.gz").code, 0);
        as(1000, "echo mine > " + mine_ + "/file");
    }
    /// Runs `command` in the shared folder as another user.
    Finished as(int user, const std::string& command) const {
        write_file(dir_.path("command.sh"), command);
        return run(formatted("cd %s && setpriv --reuid=%d --regid=%d --clear-groups env HOME=%s bash %s",
                             shared_.c_str(), user, user, mine_.c_str(), dir_.path("command.sh").c_str()));
    }
    Finished attack(const std::string& command) const { return as(65534, "umask 0; " + command); }
    Finished convert(const std::string& from, const std::string& more = "") const {
        return as(1000, sibling("convoy") + " convert imagefolder --val-share 0.2 --short-side 16 --from " + sources_ +
                            "/" + from + " --to data " + more);
    }
    /// Returns all names in the shared folder, with owners and modes, and the content of files.
    std::string state() const {
        return run("cd " + shared_ + " && find . -printf '%p %u %m %l %s\\n' | sort; cat " + mine_ + "/file").out;
    }

    TempDir dir_;
    const std::string shared_ = dir_.path("shared"), sources_ = dir_.path("sources"), mine_ = dir_.path("mine");
};

TEST_F(SharedFolders, WhatAnotherUserPutIntoThePartialFolderIsNotWrittenThrough) {
    ASSERT_EQ(attack("for d in unpacked/train/0 unpacked-train-0; do mkdir -p data.partial/$d; ln -s " + mine_ +
                     "/file data.partial/$d/x.tar; done")
                  .code,
              0);
    const std::string before = state();
    for (const char* from : {"x.tar.gz", "in.tar.gz", "in"})
        EXPECT_EQ("", refusal(convert(from), Exit::usage, {"data.partial: belongs to another user"})) << from;
    EXPECT_EQ(state(), before);
    ASSERT_EQ(attack("mv data.partial other").code, 0);
    EXPECT_EQ("", failure(convert("in.tar.gz")));
    EXPECT_EQ(read_file(mine_ + "/file"), "mine\n");
}

// Another user could have changed shards of the same source, together with their records.
TEST_F(SharedFolders, TheConversionOfAnotherUserIsNotGoneOnWith) {
    write_file(sources_ + "/in/n00000001/damaged.jpg", "");
    const std::string strict = "convoy convert imagefolder --strict --val-share 0.2 --short-side 16 --to data --from ";
    ASSERT_EQ("", refusal(attack(sibling(strict) + sources_ + "/in"), Exit::bad_input, {"damaged.jpg"}));
    EXPECT_TRUE(fs::exists(shared_ + "/data.partial/conversion.json"));
    ASSERT_EQ(attack("chmod -R a+rwX data.partial").code, 0);
    const std::string before = state();
    EXPECT_EQ("", refusal(convert("in"), Exit::usage, {"data.partial: belongs to another user"}));
    EXPECT_EQ(state(), before);
}

TEST_F(SharedFolders, AFolderThatOnlyItsOwnerCanRenameIsRefusedBeforeTheWork) {
    ASSERT_EQ(attack("mkdir data").code, 0);
    const std::string before = state();
    EXPECT_EQ("", refusal(convert("in"), Exit::usage, {"data: belongs to another user", "choose another --to"}));
    EXPECT_EQ("", refusal(as(1000, sibling("convoy") + " convert synthetic --images 9 --to data"), Exit::usage,
                          {"data: belongs to another user"}));
    EXPECT_EQ(state(), before);
    ASSERT_EQ(attack("rmdir data && ln -s " + mine_ + " data").code, 0);
    EXPECT_EQ("", refusal(convert("in", "--force"), Exit::usage, {"data: is a symbolic link to " + mine_}));
    ASSERT_EQ(attack("rm data").code, 0);
    ASSERT_EQ(as(1000, "mkdir data").code, 0);
    EXPECT_EQ("", failure(convert("in")));
}

TEST_F(SharedFolders, ALinkOfAnotherUserToTheFolderOfADataSetIsNamed) {
    as(1000, "mkdir " + mine_ + "/sets && ln -s " + mine_ + "/sets own");
    ASSERT_EQ(attack("ln -s " + mine_ + "/sets link").code, 0);
    const std::string synthetic = sibling("convoy") + " convert synthetic --images 9 --force --to ",
                      images = sibling("convoy") + " convert imagefolder --val-share 0.2 --short-side 16 --from " +
                               sources_ + "/in --force --to ",
                      warning = "warning: link/data: link is a symbolic link of another user; the data set goes to " +
                                mine_ + "/sets/data\n";
    for (const std::string& command : {synthetic, images}) {
        const Finished linked = as(1000, command + "link/data"), own = as(1000, command + "own/data");
        EXPECT_EQ("", failure(linked));
        EXPECT_NE(linked.err.find(warning), std::string::npos) << linked.err;
        EXPECT_EQ("", failure(own));
        EXPECT_EQ(own.err.find("warning"), std::string::npos) << own.err;
    }
}

TEST_F(SharedFolders, OthersMayReadADataSetOnceItIsComplete) {
    const std::string partial_of_before = "umask 022; mkdir -m 755 data.partial; ";
    for (const std::string& first : {std::string(), partial_of_before}) {
        ASSERT_EQ(as(1000, first).code, 0);
        ASSERT_EQ("", failure(convert("in", "--force")));
        struct stat about{};
        ASSERT_EQ(::stat((shared_ + "/data").c_str(), &about), 0);
        EXPECT_EQ(about.st_uid, 1000u);
        EXPECT_EQ(about.st_mode & 07777, 0755u);
        EXPECT_EQ("", failure(attack(sibling("convoy") + " verify data")));
    }
    EXPECT_FALSE(fs::exists(shared_ + "/data.partial"));
}

// In a group's folder members can still replace one another's data sets.
TEST_F(SharedFolders, MembersOfAGroupMayReplaceTheDataSetsOfOneAnother) {
    const std::string group = shared_ + "/group";
    fs::create_directory(group);
    ASSERT_EQ(::chown(group.c_str(), 0, 54321), 0);
    fs::permissions(group, fs::perms(02775));
    const auto make = [&](int user, const std::string& more) {
        write_file(dir_.path("command.sh"), "umask 002; cd " + shared_ + "; " + sibling("convoy") +
                                                " convert synthetic --images 9 --shards 1 --to group/data " + more);
        return run(formatted("setpriv --reuid=%d --regid=54321 --clear-groups env HOME=%s bash ", user, mine_.c_str()) +
                   dir_.path("command.sh"));
    };
    EXPECT_EQ("", failure(make(54322, "")));
    EXPECT_EQ("", failure(make(54323, "--force --seed 1")));
    struct stat about{};
    ASSERT_EQ(::stat((group + "/data").c_str(), &about), 0);
    EXPECT_EQ(about.st_uid, 54323u);
    EXPECT_EQ(about.st_gid, 54321u);
    EXPECT_EQ(about.st_mode & 07777, 02775u);
    EXPECT_EQ(std::distance(fs::directory_iterator(group), {}), 1) << "something is left beside it";
    fs::permissions(group + "/data", fs::perms(0755));
    const Finished f = make(54322, "--force --seed 2");
    EXPECT_EQ("", failure(f));
    EXPECT_NE(f.err.find("it is kept as group/data.replaced-"), std::string::npos)
        << "what this user may not delete: " << f.err;
}

}  // namespace
}  // namespace convoy::test
