// OUT.partial: which shards count as finished when a conversion is resumed.
#include "data/conversion_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "data/digest.h"
#include "data/input_bytes.h"
#include "tests/support/cluster.h"
#include "tests/unit/conversion_folders.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

TEST_F(ConversionFolders, AShardIsFinishedOnceItHasARecord) {
    const ShardRecord record = made();
    EXPECT_FALSE(folder_.finished(record.name));
    folder_.remember(record);
    const std::optional<ShardRecord> found = folder_.finished(record.name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->pixels.values(), record.pixels.values());
    EXPECT_EQ(found->tally.images, 1);
    EXPECT_FALSE(folder_.finished("train-00000-of-00002.h5"));
    write_file(folder_.shard(record.name).shown, "cut off");
    EXPECT_FALSE(folder_.finished(record.name));
    for (const char* text : {"", "{", "{}", "[1]"}) {
        write_file(records_ + record.name, text);
        EXPECT_FALSE(folder_.finished(record.name)) << text;
    }
}

TEST_F(ConversionFolders, AShardThatWasBeingCompletedIsMadeAgain) {
    const ShardRecord record = made();
    folder_.remember(record);
    const ManifestEntry entry = folder_.seal(record, statistics_);
    EXPECT_TRUE(folder_.finished(record.name));
    EXPECT_EQ(folder_.seal(record, statistics_).sha256, entry.sha256);
    fs::remove(records_ + record.name + ".done");
    EXPECT_FALSE(folder_.finished(record.name)) << "it may be half written";
    folder_.forget(record.name);
    folder_.remember(made());
    EXPECT_TRUE(folder_.finished(record.name));
    EXPECT_EQ(folder_.seal(record, statistics_).sha256, entry.sha256);
}

// Another shard may have been made again since, with other images.
TEST_F(ConversionFolders, AShardThatIsCompletedWithOtherStatisticsIsCompletedAgain) {
    const ShardRecord record = made();
    folder_.remember(record);
    const ManifestEntry before = folder_.seal(record, statistics_);
    const ManifestEntry after = folder_.seal(record, {{1, 2, 3}, {4, 5, 6}});
    EXPECT_NE(after.sha256, before.sha256);
    EXPECT_EQ(after.sha256, digest_of_file(Digest::Kind::sha256, folder_.shard(record.name)));
    EXPECT_TRUE(folder_.finished(record.name));
    EXPECT_EQ(folder_.seal(record, {{1, 2, 3}, {4, 5, 6}}).sha256, after.sha256);
}

// The shard may hold another image by then, and the old digest would get into the manifest.
TEST_F(ConversionFolders, AForgottenShardIsCompletedAnew) {
    const ShardRecord before = made();
    folder_.remember(before);
    const ManifestEntry old = folder_.seal(before, statistics_);
    folder_.forget(before.name);
    EXPECT_FALSE(folder_.finished(before.name));
    write_file(dir_.path("in/x.jpg"), jpeg_of(pattern(64, 48, 2)));
    const ShardRecord record = made();
    folder_.remember(record);
    EXPECT_TRUE(folder_.finished(record.name));
    const ManifestEntry entry = folder_.seal(record, statistics_);
    EXPECT_NE(entry.sha256, old.sha256);
    EXPECT_EQ(entry.sha256, digest_of_file(Digest::Kind::sha256, folder_.shard(record.name).shown));
    EXPECT_EQ(entry.bytes, int64_t(fs::file_size(folder_.shard(record.name).shown)));
}

TEST_F(ConversionFolders, WhatIsLeftOfAnotherConversionIsRemoved) {
    const ShardRecord record = made();
    folder_.remember(record);
    EXPECT_EQ(folder_.prepare("this"), ConversionFolder::Before::same);
    EXPECT_TRUE(folder_.finished(record.name));
    EXPECT_EQ(folder_.prepare("other"), ConversionFolder::Before::other);
    EXPECT_FALSE(fs::exists(folder_.shard(record.name).shown));
    EXPECT_FALSE(folder_.finished(record.name));
}

// Sealing a link's target would change a file elsewhere.
TEST_F(ConversionFolders, AShardThatIsALinkIsNotFinished) {
    const ShardRecord record = made();
    folder_.remember(record);
    const std::string shard = folder_.shard(record.name).shown, mine = dir_.path("mine");
    ASSERT_TRUE(folder_.finished(record.name));
    fs::rename(shard, mine);
    fs::create_symlink(mine, shard);
    EXPECT_FALSE(folder_.finished(record.name));
    fs::remove(shard);
    fs::create_hard_link(mine, shard);
    EXPECT_FALSE(folder_.finished(record.name));
}

// Otherwise hours of work would be removed as if they were another conversion's.
TEST_F(ConversionFolders, WhatCannotBeOpenedIsNotAnotherConversion) {
    const std::string folder = dir_.path("set.partial"), identity = folder + "/conversion.json";
    const ShardRecord record = made();
    folder_.remember(record);
    const std::string text = read_file(identity);
    fs::remove(identity);
    fs::create_symlink(identity, identity);  // ELOOP, even for root
    {
        ConversionFolder other(dir_.path("other"));
        EXPECT_EQ("", problem_of_error(Exit::io, {identity, "is a link"}, [&] { folder_.prepare("this"); }));
        other.take();
        fs::create_symlink("conversion.json", dir_.path("other.partial/conversion.json"));
    }
    EXPECT_TRUE(fs::exists(dir_.path("other.partial"))) << "removed as one in which nothing was begun";
    EXPECT_TRUE(fs::exists(records_ + record.name) && fs::exists(folder_.shard(record.name).shown));
    fs::remove(identity);
    write_file(identity, text);
    EXPECT_EQ(folder_.prepare("this"), ConversionFolder::Before::same);
    EXPECT_TRUE(folder_.finished(record.name));
}

TEST_F(ConversionFolders, BelongToOneConversionAtATime) {
    ConversionFolder second(dir_.path("set"));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"set.partial", "another conversion"}, [&] { second.take(); }));
}

TEST_F(ConversionFolders, OfAnotherUserOrOpenToOthersAreRefused) {
    const std::string partial = dir_.path("other.partial");
    write_file(partial + "/shards/x", "theirs");
    const auto refused = [&](const std::string& why) {
        ConversionFolder other(dir_.path("other"));
        EXPECT_EQ("", problem_of_error(Exit::usage, {partial + ": " + why}, [&] { other.take(); }));
        EXPECT_EQ("", problem_of_error(Exit::usage, {partial + ": " + why}, [&] { other.join("mark"); }));
    };
    fs::permissions(partial, fs::perms::group_all, fs::perm_options::add);
    refused("others may write to it; choose another --to");
    fs::permissions(partial, fs::perms::group_write, fs::perm_options::remove);
    if (::geteuid() == 0) {
        ASSERT_EQ(::chown(partial.c_str(), 65534, 65534), 0);
        refused("belongs to another user; choose another --to");
    }
    EXPECT_EQ(read_file(partial + "/shards/x"), "theirs");
}

// Others may have given the name to a folder of the user's, in a folder that they share.
TEST_F(ConversionFolders, OfUsersAreRefusedAndKept) {
    const std::string partial = dir_.path("other.partial");
    for (const char* name : {"thesis", "cat/1.jpg", "mark-of-today.txt", "unpacked-train-x/1", "lock.txt", "shards/x",
                             "records/x", "conversion.json"}) {
        write_file(partial + "/" + name, "mine");
        fs::permissions(partial, fs::perms(0700));
        {
            ConversionFolder other(dir_.path("other"));
            EXPECT_EQ("", problem_of_error(Exit::usage, {partial + ": ", "no conversion", "choose another --to"},
                                           [&] { other.take(); }))
                << name;
        }
        EXPECT_EQ(read_file(partial + "/" + name), "mine");
        EXPECT_EQ(std::distance(fs::directory_iterator(partial), {}), 1) << name;
        fs::remove_all(partial);
    }
}

TEST_F(ConversionFolders, KeepWhatAUserPutsThereMeanwhile) {
    const std::string partial = dir_.path("other.partial");
    {
        ConversionFolder other(dir_.path("other"));
        other.take();
        write_file(partial + "/notes.txt", "mine");
    }
    EXPECT_EQ(read_file(partial + "/notes.txt"), "mine");
    EXPECT_EQ(std::distance(fs::directory_iterator(partial), {}), 1) << "what the conversion made is removed";
}

TEST_F(ConversionFolders, AreTakenWhateverAKilledConversionLeftInThem) {
    const std::string partial = dir_.path("other.partial");
    for (const char* name : {"/lock", "/mark-abcdefghijklmnopq012", "/conversion.json.partial", "/shards/x",
                             "/records/x", "/unpacked-train-0/x.tar", "/unpacked-test-12/x.tar"})
        write_file(partial + name, "");
    fs::permissions(partial, fs::perms(0700));
    {
        ConversionFolder other(dir_.path("other"));
        other.take();
    }
    EXPECT_FALSE(fs::exists(partial));
}

// In a group's folder another member of the group may rename the folder.
TEST_F(ConversionFolders, AreNotWrittenToWhenAnotherIsInTheirPlace) {
    const ShardRecord record = made();
    folder_.remember(record);
    const std::string partial = dir_.path("set.partial"), moved = dir_.path("moved"), mine = dir_.path("mine/");
    write_file(mine + "manifest.json", "mine");
    write_file(mine + record.name, "mine");
    fs::rename(partial, moved);
    fs::create_directories(partial + "/records");
    fs::create_directory_symlink(mine, partial + "/shards");
    const auto refused = [&](const std::function<void()>& action) {
        EXPECT_EQ("", problem_of_error(Exit::io, {partial, "another folder is in its place"}, action));
    };
    refused([&] { folder_.forget(record.name); });
    refused([&] { folder_.seal(record, statistics_); });
    refused([&] { folder_.publish({}, Destination(dir_.path("set"))); });
    refused([&] { folder_.prepare("other"); });
    EXPECT_EQ(read_file(mine + "manifest.json") + read_file(mine + record.name), "minemine");
    fs::remove_all(partial);
    fs::rename(moved, partial);
    EXPECT_TRUE(folder_.finished(record.name));
}

// Messages name what the user knows.
TEST_F(ConversionFolders, NameTheirPathWhereAFileCannotBeWritten) {
    const std::string shard = dir_.path("set.partial/shards/train-00000-of-00001.h5");
    fs::create_directory(shard);
    EXPECT_EQ("", problem_of_error(Exit::io, {shard + ": cannot be written"}, [&] { made(); }));
    fs::remove(shard);
    const ShardRecord record = made();
    fs::create_directory(records_ + record.name);
    write_file(records_ + record.name + "/x", "");
    EXPECT_EQ("", problem_of_error(Exit::io, {records_ + record.name + ": cannot be written"},
                                   [&] { folder_.remember(record); }));
    EXPECT_FALSE(fs::exists(records_ + record.name + ".partial"));
    fs::remove(shard);
    EXPECT_EQ(
        "", problem_of_error(Exit::io, {shard + ": cannot be completed"}, [&] { folder_.seal(record, statistics_); }));
}

// The other ranks of a conversion, on this host or on others.
TEST_F(ConversionFolders, AreJoinedOnlyWhereTheFirstRankHasTheSameOne) {
    ConversionFolder second(dir_.path("set"));
    const std::string partial = dir_.path("set.partial");
    fs::rename(partial, dir_.path("moved"));
    for (const char* name : {"/shards", "/records"}) fs::create_directories(partial + name);
    fs::permissions(partial, fs::perms(0700));
    EXPECT_EQ("", problem_of_error(Exit::io, {partial + ": this rank finds another folder there than rank 0"},
                                   [&] { second.join(mark_); }));
    fs::remove_all(partial);
    fs::rename(dir_.path("moved"), partial);
    second.join(mark_);
    const ShardRecord record = made();
    second.remember(record);
    EXPECT_TRUE(folder_.finished(record.name));
    EXPECT_EQ(second.seal(record, statistics_).sha256, folder_.seal(record, statistics_).sha256);
}

TEST_F(ConversionFolders, HaveOneMarkHoweverOftenTheyAreTaken) {
    ConversionFolder first(dir_.path("other"));
    std::string mark;
    {
        ConversionFolder before(dir_.path("other"));
        mark = before.take();
        before.prepare("this");
    }
    EXPECT_NE(first.take(), mark);
    std::error_code error;
    int marks = 0;
    for (const std::string& name : first.folder().held().names(error)) marks += name.starts_with("mark-");
    EXPECT_EQ(marks, 1);
}

TEST_F(ConversionFolders, ReadArchivesWhereTheyUnpackedThem) {
    const std::string tar = dir_.path("set.partial/unpacked-train-0/x.tar"), elsewhere = dir_.path("in/x.jpg");
    write_file(tar, "mine");
    const FilePlace place = folder_.source(tar);
    EXPECT_EQ(place.shown, tar);
    EXPECT_EQ(folder_.source(elsewhere).opened, elsewhere);
    fs::rename(dir_.path("set.partial"), dir_.path("moved"));
    write_file(tar, "somebody's");
    EXPECT_EQ(InputBytes(place).size(), 4);
    EXPECT_EQ(InputBytes(place).path(), tar);
    fs::remove_all(dir_.path("set.partial"));
    fs::rename(dir_.path("moved"), dir_.path("set.partial"));
}

TEST_F(ConversionFolders, HaveAManifestThatIsNoLink) {
    const ShardRecord record = made();
    folder_.remember(record);
    const ManifestEntry entry = folder_.seal(record, statistics_);
    write_file(dir_.path("mine"), "mine");
    const std::string manifest = folder_.shard("manifest.json").shown;
    fs::create_symlink(dir_.path("mine"), manifest);
    EXPECT_EQ("", problem_of_error(Exit::io, {manifest + ": is a symbolic link"},
                                   [&] { folder_.publish({entry}, Destination(dir_.path("set"))); }));
    fs::remove(manifest);
    fs::create_hard_link(dir_.path("mine"), manifest);
    EXPECT_EQ(folder_.publish({entry}, Destination(dir_.path("set"))), "");
    EXPECT_EQ(read_file(dir_.path("mine")), "mine");
    EXPECT_NE(read_file(dir_.path("set/manifest.json")), "mine");
}

// A folder with a mount point cannot be removed, even by root.
TEST_F(ConversionFolders, WhatCannotBeRemovedIsAnError) {
    const ShardRecord record = made();
    folder_.remember(record);
    const std::string shards = fs::path(folder_.shard(record.name).shown).parent_path();
    const std::string mounted = "mount -t tmpfs none " + shards + " && umount " + shards;
    if (run(mounted).code != 0) GTEST_SKIP() << "needs the right to mount";
    ASSERT_EQ(run("mount -t tmpfs none " + shards).code, 0);
    EXPECT_EQ(
        "", problem_of_error(Exit::io, {"set.partial/shards", "cannot be removed"}, [&] { folder_.prepare("other"); }));
    ASSERT_EQ(run("umount " + shards).code, 0);
    EXPECT_EQ(folder_.prepare("other"), ConversionFolder::Before::nothing);
}

TEST_F(ConversionFolders, OnceItIsPublishedTheFolderIsTheNextOnes) {
    const ShardRecord record = made();
    folder_.remember(record);
    const ManifestEntry entry = folder_.seal(record, statistics_);
    {
        ConversionFolder first(dir_.path("other"));
        first.take();
        first.prepare("this");
        fs::copy(folder_.shard(record.name).shown, first.shard(record.name).shown);
        EXPECT_EQ(first.publish({entry}, Destination(dir_.path("other"))), "");
        EXPECT_TRUE(fs::exists(dir_.path("other/") + record.name));
        write_file(dir_.path("other.partial/shards/x"), "another conversion's");
    }
    EXPECT_TRUE(fs::exists(dir_.path("other.partial/shards/x")));
}

TEST_F(ConversionFolders, InWhichNothingWasBegunAreRemoved) {
    {
        ConversionFolder other(dir_.path("other"));
        other.take();
        EXPECT_TRUE(fs::exists(dir_.path("other.partial")));
    }
    EXPECT_FALSE(fs::exists(dir_.path("other.partial")));
    EXPECT_TRUE(fs::exists(dir_.path("set.partial")));
}

}  // namespace
}  // namespace convoy::test
