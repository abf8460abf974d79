// Unpacked archives, compared with gzip and tar. Refused archives leave nothing behind.
#include "data/unpack.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include "tests/support/file_calls.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class Unpack : public testing::Test {
protected:
    std::string refusal(Exit code, const std::vector<std::string>& words) const {
        const std::string problem = problem_of_error(code, words, [&] { unpacked(); });
        return fs::exists(folder_) && !fs::is_empty(folder_) ? folder_ + ": something is left; " + problem : problem;
    }
    /// Packs the output of a bash command.
    void pack(const std::string& command) const {
        ASSERT_EQ(run("cd " + dir_.path() + " && (" + command + ") | gzip -1 > " + packed_).code, 0);
    }

    std::string unpacked() const { return unpack_tar(packed_, working_, "unpacked").shown; }

    TempDir dir_;
    const OwnFolder working_ = OwnFolder::make_or_take(dir_.path("working"), "choose another --to");
    const std::string packed_ = dir_.path("x.tar.gz"), folder_ = dir_.path("working/unpacked");
};

TEST_F(Unpack, GivesWhatGzipGives) {
    for (const char* content : {"head -c 700 /dev/urandom > a; tar c a", "head -c 3000000 /dev/urandom > a; tar c a",
                                "head -c 60M /dev/zero > a; tar c a", "tar cT /dev/null"}) {
        pack(content);
        EXPECT_EQ(unpacked(), folder_ + "/x.tar");
        EXPECT_EQ(run("zcat " + packed_ + " | cmp - " + folder_ + "/x.tar").code, 0) << content;
    }
}

TEST_F(Unpack, EndsAtTheFirstBlockThatIsNoTar) {
    for (const char* content : {"echo attacker code", "head -c 3000000 /dev/urandom", "true", "head -c 511 /dev/zero",
                                "tar c x.tar.gz | tail -c +2"}) {
        pack(content);
        EXPECT_EQ("", refusal(Exit::bad_input, {packed_ + ": is gzipped, but holds no tar archive"})) << content;
    }
    pack("tar c x.tar.gz | head -c 512; cat /proc/self/exe");
    const std::string whole = read_file(packed_);
    write_file(packed_, whole.substr(0, whole.size() - 30));
    EXPECT_EQ("", refusal(Exit::bad_input, {packed_, "truncated"}));
}

TEST_F(Unpack, EndsWhereAnArchiveGrowsAsNoImagesDo) {
    for (const char* content : {"head -c 100M /dev/zero", "truncate -s 100M a; tar c a"}) {
        pack(content);
        EXPECT_EQ("", refusal(Exit::bad_input, {packed_ + ": unpacks to more than 200 times its size"})) << content;
    }
}

TEST_F(Unpack, WritesThroughNoLink) {
    pack("echo > a; tar c a");
    write_file(dir_.path("mine"), "mine");
    fs::create_directory(folder_);
    fs::create_symlink(dir_.path("mine"), folder_ + "/x.tar");
    EXPECT_EQ("", problem_of_error(Exit::io, {folder_ + "/x.tar: is a symbolic link"}, [&] { unpacked(); }));
    fs::remove(folder_ + "/x.tar");
    fs::create_hard_link(dir_.path("mine"), folder_ + "/x.tar");
    EXPECT_EQ(unpacked(), folder_ + "/x.tar");
    EXPECT_EQ(read_file(dir_.path("mine")), "mine");
    fs::remove_all(folder_);
    fs::create_directory_symlink(dir_.path(), folder_);
    EXPECT_EQ("", problem_of_error(Exit::usage, {folder_ + ": is no folder of the same user"}, [&] { unpacked(); }));
    EXPECT_FALSE(fs::exists(dir_.path("x.tar")));
}

TEST_F(Unpack, WritesIntoTheFolderThatIsHeld) {
    pack("echo > a; tar c a");
    const std::string elsewhere = dir_.path("elsewhere"), moved = dir_.path("moved");
    fs::create_directories(elsewhere + "/unpacked");
    write_file(elsewhere + "/unpacked/x.tar", "mine");
    std::optional<FilePlace> place;
    {
        const AfterLook look(working_.path(), [&] {
            fs::rename(working_.path(), moved);
            fs::create_directory_symlink(elsewhere, working_.path());
        });
        place = unpack_tar(packed_, working_, "unpacked");
    }
    EXPECT_EQ(read_file(elsewhere + "/unpacked/x.tar"), "mine");
    EXPECT_EQ(place->shown, folder_ + "/x.tar");
    EXPECT_EQ(read_file(place->opened), read_file(moved + "/unpacked/x.tar"));
    fs::remove(working_.path());
    fs::rename(moved, working_.path());
}

TEST_F(Unpack, LeavesRoomOnTheDisk) {
    const std::string disk = dir_.path("disk");
    fs::create_directory(disk);
    if (run("mount -t tmpfs -o size=20m none " + disk).code != 0) GTEST_SKIP() << "needs the right to mount";
    const std::string to = disk + "/working/unpacked";
    const auto unpack = [&] {  // the disk stays mounted for as long as a folder on it is held
        return unpack_tar(packed_, OwnFolder::make_or_take(disk + "/working", ""), "unpacked").shown;
    };
    pack("head -c 20M /dev/urandom > a; tar c a");
    const std::vector<std::string> words = {to + "/x.tar: only 20 MiB are free", "too few to unpack " + packed_};
    EXPECT_EQ("", problem_of_error(Exit::io, words, [&] { unpack(); }));
    pack("head -c 30M /dev/zero > a; tar c a");
    EXPECT_EQ("", problem_of_error(Exit::io, {to + "/x.tar: only 1 MiB are free"}, [&] { unpack(); }));
    EXPECT_FALSE(fs::exists(to + "/x.tar"));
    pack("head -c 15M /dev/zero > a; tar c a");
    EXPECT_EQ(unpack(), to + "/x.tar");
    EXPECT_EQ(run("umount " + disk).code, 0);
}

}  // namespace
}  // namespace convoy::test
