// Working folders of conversions that were copied, unpacked or opened to others: none is continued.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/conversion_folder.h"
#include "tests/support/cluster.h"
#include "tests/unit/conversion_folders.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

using ConversionCopies = ConversionFolders;

// The shards of a folder that was unpacked or copied could be anybody's.
TEST_F(ConversionCopies, ACopyStartsOver) {
    const ShardRecord record = made();
    folder_.remember(record);
    fs::copy(dir_.path("set.partial"), dir_.path("copy.partial"), fs::copy_options::recursive);
    fs::permissions(dir_.path("copy.partial"), fs::perms::owner_all);
    ConversionFolder copy(dir_.path("copy"));
    copy.take();
    EXPECT_EQ(copy.prepare("this"), ConversionFolder::Before::other);
    EXPECT_FALSE(copy.finished(record.name));
    EXPECT_EQ(folder_.prepare("this"), ConversionFolder::Before::same);
    record_fault("a working folder of a conversion that came out of an archive", "not continued", "as promised", 1);
}

// NFS and ramfs do not know when a folder was made, and the next inode number can be guessed. A
// secret in the user's cache then tells a conversion from a copy.
TEST_F(ConversionCopies, WithoutATimeOfBirthTheyHaveASecret) {
    const std::string disk = dir_.path("disk"), to = disk + "/set", partial = to + ".partial";
    fs::create_directory(disk);
    if (run("mount -t ramfs none " + disk).code != 0) GTEST_SKIP() << "needs the right to mount";
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const std::string before = cache ? cache : "";
    const auto content = [&] {
        ConversionFolder folder(to);
        folder.take();
        return folder.prepare("this");
    };
    const auto identity = [&] { return read_file(partial + "/conversion.json"); };
    for (const std::string& usable : {dir_.path("cache"), std::string("/dev/null")}) {
        setenv("XDG_CACHE_HOME", usable.c_str(), 1);
        const bool continues = usable != "/dev/null";
        EXPECT_EQ(content(), ConversionFolder::Before::nothing);
        EXPECT_EQ(identity().rfind("this\nwith secret ", 0), 0u) << identity();
        EXPECT_EQ(content(), continues ? ConversionFolder::Before::same : ConversionFolder::Before::other);
        const std::string written = identity();
        EXPECT_EQ(run("cp -a " + partial + " " + to + "2.partial").code, 0);
        ConversionFolder copy(to + "2");
        copy.take();
        EXPECT_EQ(copy.prepare("this"), ConversionFolder::Before::other);
        write_file(partial + "/conversion.json", "this\nwith secret aaaaaaaaaaaaaaaaaaaa");
        EXPECT_EQ(content(), ConversionFolder::Before::other);
        EXPECT_NE(identity(), written) << "each conversion has its own";
        fs::remove_all(partial);
        fs::remove_all(to + "2.partial");
    }
    before.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", before.c_str(), 1);
    for (const auto& file : fs::directory_iterator(dir_.path("cache/convoy")))
        EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_EQ(run("umount -l " + disk).code, 0);
}

// An archive may bring a folder that a group may look into. The group could have its files open,
// and change them while they are converted.
TEST_F(ConversionCopies, WithContentThatOthersMayHaveOpenAreRefused) {
    const std::string partial = dir_.path("other.partial");
    const auto mode = [&] { return fs::status(partial).permissions(); };
    const auto take = [&] { ConversionFolder(dir_.path("other")).take(); };
    fs::create_directory(partial);
    fs::permissions(partial, fs::perms(0755));
    {
        ConversionFolder other(dir_.path("other"));
        other.take();
        EXPECT_EQ(mode(), fs::perms(0700)) << "an empty one is closed";
        other.prepare("this");
    }
    for (const int open : {0755, 0710, 0701}) {
        fs::permissions(partial, fs::perms(open));
        EXPECT_EQ("", problem_of_error(Exit::usage, {partial + ": others may look into it", "remove it"}, take));
        EXPECT_EQ(mode(), fs::perms(open));
    }
    fs::permissions(partial, fs::perms(0700));
    EXPECT_NO_THROW(take());
}

}  // namespace
}  // namespace convoy::test
