// Others put another folder of the user in the place of OUT.partial while a conversion works in it,
// as they can in a group's folder without the sticky bit. Nothing happens in that one.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/digest.h"
#include "data/input_bytes.h"
#include "tests/support/file_calls.h"
#include "tests/unit/conversion_folders.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class ConversionExchanges : public ConversionFolders {};

/// A folder of the user's that looks like a working folder and that others put in the place of one.
class Exchanged {
public:
    Exchanged(const TempDir& dir, const std::string& shard)
        : partial_(dir.path("set.partial")), moved_(dir.path("moved")), mine_(dir.path("mine")) {
        for (const char* name : {"/conversion.json", "/shards/manifest.json", "/shards/notes.txt", "/records/x"})
            write_file(mine_ + name, "mine");
        for (const char* name : {"/shards/", "/records/"}) write_file(mine_ + name + shard, "mine");
        for (const char* ending : {".open", ".done"}) write_file(mine_ + "/records/" + shard + ending, "mine");
        fs::permissions(mine_, fs::perms(0700));
        before_ = state(mine_);
    }
    /// Puts a link to the user's folder, or that folder itself, in place of the path.
    void exchange(bool link) {
        link_ = link;
        fs::rename(partial_, moved_);
        link ? fs::create_directory_symlink(mine_, partial_) : fs::rename(mine_, partial_);
    }
    /// Puts everything back. Returns what differs in the user's folder.
    std::string put_back() {
        link_ ? void(fs::remove(partial_)) : fs::rename(partial_, mine_);
        if (fs::exists(moved_)) fs::rename(moved_, partial_);
        const std::string now = state(mine_);
        return now == before_ ? "" : "was\n" + before_ + "and is\n" + now;
    }

private:
    static std::string state(const std::string& folder) {
        return run("cd " + folder + " && find . -printf '%p %y %s\\n' | sort && cat $(find . -type f | sort)").out;
    }
    const std::string partial_, moved_, mine_;
    std::string before_;
    bool link_ = false;
};

// The exchange comes right after the look at the path, where no look can notice it.
TEST_F(ConversionExchanges, TouchNothingElseWhenTheyAreExchangedBehindALook) {
    const std::string partial = dir_.path("set.partial");
    const ShardRecord record = made();
    folder_.remember(record);
    Exchanged other(dir_, record.name);
    for (const bool link : {true, false}) {
        const auto during = [&](const char* what, const std::function<void()>& action) {
            {
                const AfterLook look(partial, [&] { other.exchange(link); });
                try {
                    action();
                } catch (const Error& error) {
                    EXPECT_EQ(error.code, Exit::io) << what << error.what();
                    EXPECT_EQ(std::string(error.what()).find("/proc/"), std::string::npos) << what << error.what();
                }
                ASSERT_TRUE(look.happened()) << what;
            }
            EXPECT_EQ("", other.put_back()) << what << (link ? ", a link" : ", a folder");
        };
        during("forget", [&] { folder_.forget(record.name); });
        EXPECT_FALSE(folder_.finished(record.name));
        folder_.remember(made());
        during("seal", [&] { folder_.seal(record, statistics_); });
        EXPECT_TRUE(folder_.finished(record.name));
        during("prepare", [&] { folder_.prepare(link ? "other" : "a third"); });
        EXPECT_EQ(fs::exists(dir_.path("set.partial/shards/") + record.name), false) << "it was of another conversion";
        folder_.prepare(link ? "other" : "a third");
        folder_.remember(made());
    }
}

// A shard takes minutes to write, and its path is not looked at meanwhile.
TEST_F(ConversionExchanges, WriteShardsAndRecordsIntoTheFolderThatWasTaken) {
    Exchanged other(dir_, "train-00000-of-00001.h5");
    for (const bool link : {true, false}) {
        other.exchange(link);
        const ShardRecord record = made();
        folder_.remember(record);
        EXPECT_TRUE(folder_.finished(record.name)) << link;
        EXPECT_EQ("", other.put_back()) << link;
        EXPECT_EQ(folder_.seal(record, statistics_).bytes,
                  int64_t(fs::file_size(dir_.path("set.partial/shards/") + record.name)));
        folder_.forget(record.name);
    }
}

TEST_F(ConversionExchanges, ArePublishedAsTheyWereMadeWhateverTakesTheirPlace) {
    const ShardRecord record = made();
    folder_.remember(record);
    const ManifestEntry entry = folder_.seal(record, statistics_);
    Exchanged other(dir_, record.name);
    {
        const AfterLook look(dir_.path("set.partial"), [&] { other.exchange(true); });
        EXPECT_EQ(folder_.publish({entry}, Destination(dir_.path("set"))), "");
        EXPECT_TRUE(look.happened());
    }
    EXPECT_EQ("", other.put_back());
    EXPECT_EQ(digest_of_file(Digest::Kind::sha256, dir_.path("set/") + record.name), entry.sha256);
    EXPECT_EQ(read_manifest(dir_.path("set")).size(), 1u);
}

}  // namespace
}  // namespace convoy::test
