// Replacing a data set: files that appeared in the folder meanwhile are kept, and the targets of
// links at the destination are left alone.
#include "data/shard_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "data/decode.h"
#include "data/destination.h"
#include "tests/support/file_calls.h"
#include "tests/support/images.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class ShardFolders : public testing::Test {
protected:
    /// Writes a data set of `images` images, and calls `meanwhile` during the write.
    std::string write(int images, bool force, const std::function<void()>& meanwhile = [] {}) const {
        Source source = make_synthetic({.images = images, .test_images = 2, .height = 4, .width = 4});
        Split& train = source.splits[0];
        train.read = [read = train.read, meanwhile](int64_t first, int64_t rows, uint8_t* pixels, int32_t* labels) {
            meanwhile();
            read(first, rows, pixels, labels);
        };
        return write_data_set(source, to_, 1, force);
    }
    int64_t images() const { return SplitReader(to_, "train").info().images; }
    /// Returns paths in the data set's folder whose names begin with "data".
    std::vector<std::string> beside() const {
        std::vector<std::string> paths;
        for (const auto& entry : fs::directory_iterator(dir_.path()))
            if (entry.path() != to_ && entry.path().filename().string().starts_with("data"))
                paths.push_back(entry.path());
        return paths;
    }

    TempDir dir_;
    const std::string to_ = dir_.path("data");
};

TEST_F(ShardFolders, AreReplacedWithForceAndLeaveNothing) {
    EXPECT_EQ(write(5, false), "");
    EXPECT_EQ(write(6, true), "");
    EXPECT_EQ(images(), 6);
    EXPECT_TRUE(beside().empty());
}

// A folder of an image's layer cannot be renamed, but another one can take its place.
TEST_F(ShardFolders, TakeThePlaceOfAnEmptyFolderThatIsOfAContainersImage) {
    for (const char* name : {"image/data", "changes", "work", "seen"}) fs::create_directories(dir_.path(name));
    const std::string seen = dir_.path("seen"), options = "lowerdir=" + dir_.path("image") +
                                                          ",upperdir=" + dir_.path("changes") +
                                                          ",workdir=" + dir_.path("work");
    if (run("mount -t overlay overlay -o " + options + " " + seen).code != 0)
        GTEST_SKIP() << "needs overlay file systems";
    const Source source = make_synthetic({.images = 6, .test_images = 2, .height = 4, .width = 4});
    EXPECT_EQ(write_data_set(source, seen + "/data", 1, false), "");
    EXPECT_EQ(SplitReader(seen + "/data", "train").info().images, 6);
    EXPECT_EQ(run("umount " + seen).code, 0);
}

TEST_F(ShardFolders, KeepWhatCameInMeanwhile) {
    const auto kept = [&](const std::string& said, const std::string& name) {
        const std::vector<std::string> left = beside();
        ASSERT_EQ(left.size(), 1u);
        EXPECT_TRUE(said.starts_with(to_ + ": what was there before holds ")) << said;
        EXPECT_TRUE(said.ends_with("it is kept as " + left[0])) << said;
        EXPECT_EQ(read_file(left[0] + "/" + name), "years of work");
        fs::remove_all(left[0]);
    };
    write(5, false);
    const size_t files = files_in(to_).size();
    kept(write(6, true, [&] { write_file(to_ + "/notes.txt", "years of work"); }), "notes.txt");
    EXPECT_EQ(images(), 6);
    kept(write(7, true, [&] { write_file(to_ + "/train-00000-of-00002.h5/deep/x", "years of work"); }),
         "train-00000-of-00002.h5/deep/x");
    fs::remove_all(to_);
    kept(write(8, false, [&] { write_file(to_ + "/manifest.json", "years of work"); }), "manifest.json");
    EXPECT_EQ(images(), 8);
    EXPECT_EQ(files_in(to_).size(), files);
    EXPECT_EQ(write(9, true, [&] { write_file(to_ + "/train-00004-of-00005.h5", "a shard"); }), "");
    EXPECT_TRUE(beside().empty());
}

// Another member of a group can rename what is in the group's folder.
TEST_F(ShardFolders, DeleteNoOtherDataSetThatTakesTheirPlaceMeanwhile) {
    const std::string precious = dir_.path("precious"), moved = dir_.path("moved");
    const auto exchange = [&] {
        if (fs::exists(moved)) return;
        fs::rename(to_, moved);
        fs::rename(precious, to_);
    };
    const auto count = [](const std::string& folder) { return SplitReader(folder, "train").info().images; };
    for (const bool is_data_set : {true, false}) {
        write(9, true);
        if (!is_data_set) write_file(to_ + "/thesis", "years of work");
        const auto files = files_in(to_);
        fs::rename(to_, precious);
        write(5, false);
        EXPECT_EQ("", problem_of_error(Exit::io, {to_ + ": another folder is there than at the beginning"},
                                       [&] { write(6, true, exchange); }));
        EXPECT_EQ(count(to_), 9) << "it is where it was put";
        EXPECT_EQ(files_in(to_).size(), files.size());
        EXPECT_EQ(count(moved), 5);
        EXPECT_TRUE(beside().empty());
        for (const std::string& folder : {to_, moved}) fs::remove_all(folder);
    }
}

TEST_F(ShardFolders, DeleteNothingThatCameWhereNothingWas) {
    const std::string precious = dir_.path("precious");
    for (const bool force : {false, true}) {
        write(9, false);
        fs::rename(to_, precious);
        const std::string said = write(6, force, [&] {
            if (fs::exists(precious)) fs::rename(precious, to_);
        });
        ASSERT_EQ(beside().size(), 1u) << said;
        EXPECT_TRUE(said.ends_with("it is kept as " + beside()[0])) << said;
        EXPECT_EQ(SplitReader(beside()[0], "train").info().images, 9);
        EXPECT_EQ(images(), 6);
        for (const std::string& folder : {beside()[0], to_}) fs::remove_all(folder);
    }
}

// Between the look at what is there and its renaming: no look before it could notice that.
TEST_F(ShardFolders, PutBackWhatWasRenamedInsteadOfTheirs) {
    const std::string precious = dir_.path("precious"), moved = dir_.path("moved");
    write(9, false);
    fs::rename(to_, precious);
    write(5, false);
    const Destination destination(to_, true);
    const Source source = make_synthetic({.images = 6, .test_images = 2, .height = 4, .width = 4});
    const auto exchange = [&] {
        fs::rename(to_, moved);
        fs::rename(precious, to_);
    };
    {
        const AfterLook look("data", exchange);
        EXPECT_EQ("", problem_of_error(Exit::io, {to_ + ": another folder is there"},
                                       [&] { write_data_set(source, destination, 1); }));
        EXPECT_TRUE(look.happened());
    }
    EXPECT_EQ(images(), 9);
    EXPECT_TRUE(beside().empty());
    EXPECT_EQ(SplitReader(moved, "train").info().images, 5);
    // another user takes the name before it is put back
    fs::rename(to_, precious);
    fs::rename(moved, to_);
    std::optional<AfterRename> rename;
    const AfterLook look("data", [&] {
        exchange();
        rename.emplace(to_, [&] { fs::create_directory(to_); });
    });
    EXPECT_EQ("", problem_of_error(Exit::io, {to_ + ": another folder is there", "what was there is now " + to_},
                                   [&] { write_data_set(source, destination, 1); }));
    ASSERT_EQ(beside().size(), 1u);
    EXPECT_EQ(SplitReader(beside()[0], "train").info().images, 9);
}

TEST_F(ShardFolders, AreMadeInTheFolderThatWasThereWhenTheyWereLookedFor) {
    const std::string above = dir_.path("above"), moved = dir_.path("moved"), to = above + "/data";
    const Source source = make_synthetic({.images = 6, .test_images = 2, .height = 4, .width = 4});
    fs::create_directory(above);
    const Destination destination(to, true);
    fs::rename(above, moved);
    fs::create_directory_symlink(dir_.path("mine"), above);
    write_file(dir_.path("mine/data/manifest.json"), "mine");
    EXPECT_EQ("", problem_of_error(Exit::io, {to + ": the folder above it is another one than at the beginning"},
                                   [&] { write_data_set(source, destination, 1); }));
    EXPECT_EQ(read_file(dir_.path("mine/data/manifest.json")), "mine");
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path("mine")), {}), 1) << "nothing is left there";
    EXPECT_TRUE(fs::is_empty(moved));
    // what is not there yet is made
    EXPECT_EQ(write_data_set(source, Destination(dir_.path("new/deep/data")), 1), "");
}

TEST_F(ShardFolders, SayIfAnotherFolderHasThePathAtTheEnd) {
    const std::string above = dir_.path("above"), to = above + "/data", moved = dir_.path("moved");
    const Source source = make_synthetic({.images = 6, .test_images = 2, .height = 4, .width = 4});
    fs::create_directory(above);
    const AfterRename rename(to, [&] {
        fs::rename(above, moved);
        fs::create_directories(to);
    });
    EXPECT_EQ("", problem_of_error(Exit::io, {to + ": the data set is complete, but another folder has this path now"},
                                   [&] { write_data_set(source, Destination(to), 1); }));
    EXPECT_EQ(SplitReader(moved + "/data", "train").info().images, 6);
    EXPECT_TRUE(fs::is_empty(to));
}

TEST_F(ShardFolders, HoldNoNamesOfClassesThatSteerATerminal) {
    Source source = make_synthetic({.images = 6, .test_images = 2, .height = 4, .width = 4});
    const std::vector<std::string> bad = {"a\x1b]0;x\a",
                                          "a\nb",
                                          "\r",
                                          "\x7f",
                                          "caf\xc2\x9b",
                                          "\xe2\x80\xae"
                                          "abc",
                                          "\xe2\x81\xa6",
                                          "a\x01",
                                          "caf\xe9",
                                          std::string("a\0b", 3)};
    for (const std::string& name : bad) {
        source.class_names[3] = name;
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {"class '" + printable(name) + "'", "give it another name"},
                                       [&] { write_data_set(source, Destination(to_), 1); }));
    }
    for (const char* name : {"caf\xc3\xa9", "\xe7\x8a\xac", "a b", "a\tb", ""})
        EXPECT_NO_THROW(check_class_name(name, "")) << name;
    EXPECT_NO_THROW(check_class_name(std::string(1000, 'x'), ""));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"class 'xxx", "1001 bytes, and 1000 are allowed"},
                                   [&] { check_class_name(std::string(1001, 'x'), "rename it"); }));
    EXPECT_TRUE(beside().empty());
}

TEST_F(ShardFolders, AreNotForceIfTheyHoldAFolder) {
    write_file(to_ + "/manifest.json/thesis", "years of work");
    EXPECT_EQ("", problem_of_error(Exit::usage, {to_ + ": holds manifest.json, which is not part of a data set"},
                                   [&] { Destination(to_, true); }));
}

TEST_F(ShardFolders, DoNotFollowALinkAsDestination) {
    fs::create_directory(dir_.path("elsewhere"));
    for (const std::string& target : {dir_.path("elsewhere"), std::string("nowhere"), std::string("data")}) {
        fs::create_symlink(target, to_);
        for (const std::string& to : {to_, to_ + "/"})
            for (const bool force : {false, true})
                EXPECT_EQ("", problem_of_error(Exit::usage, {to + ": is a symbolic link to " + target},
                                               [&] { Destination(to, force); }));
        EXPECT_EQ("", problem_of_error(Exit::usage, {"is a symbolic link"}, [&] { write(5, true); }));
        EXPECT_EQ(fs::read_symlink(to_), target);
        fs::remove(to_);
    }
    EXPECT_TRUE(fs::is_empty(dir_.path("elsewhere")));
    // the link may also appear while the data set is written
    const auto link = [&] {
        if (!fs::is_symlink(to_)) fs::create_symlink(dir_.path("elsewhere"), to_);
    };
    EXPECT_EQ("", problem_of_error(Exit::io, {to_ + ": cannot be put in place"}, [&] { write(5, true, link); }));
    EXPECT_TRUE(fs::is_empty(dir_.path("elsewhere")));
    EXPECT_TRUE(fs::is_symlink(to_));
    EXPECT_TRUE(beside().empty());
}

TEST_F(ShardFolders, ArePutInPlaceWhateverNamesWereMadeBefore) {
    write(5, false);
    const std::string pid = std::to_string(::getpid());
    write_file(to_ + ".replaced-" + pid + "/x", "");
    write_file(to_ + ".partial-" + pid + "/x", "");
    EXPECT_EQ(write(6, true), "");
    EXPECT_EQ(images(), 6);
    EXPECT_EQ(beside().size(), 2u) << "both are still there";
}

TEST_F(ShardFolders, AreForWhomTheUmaskSays) {
    for (const mode_t umask : {002, 022, 027}) {
        const mode_t before = ::umask(umask);
        write(5, true);
        ::umask(before);
        struct stat about{};
        ASSERT_EQ(::stat(to_.c_str(), &about), 0);
        EXPECT_EQ(about.st_mode & 07777, 0777u & ~umask);
        for (const auto& entry : fs::directory_iterator(to_)) {
            ASSERT_EQ(::stat(entry.path().c_str(), &about), 0);
            EXPECT_EQ(about.st_mode & 07777, 0666u & ~umask) << entry.path();
        }
    }
}

TEST_F(ShardFolders, WhoseWorkingFolderIsReplacedTouchNothingElse) {
    fs::create_directory(dir_.path("elsewhere"));
    const auto replace = [&] {
        if (beside().size() != 1) return;
        const std::string working = beside()[0];
        fs::rename(working, dir_.path("data-moved"));
        write_file(working + "/theirs", "theirs");
        fs::create_directory_symlink(dir_.path("elsewhere"), working + "/shards");
    };
    EXPECT_EQ("", problem_of_error(Exit::io, {".partial-", "another folder is in its place"},
                                   [&] { write(5, false, replace); }));
    EXPECT_TRUE(fs::is_empty(dir_.path("elsewhere")));
    EXPECT_FALSE(fs::exists(to_));
    EXPECT_EQ(beside().size(), 2u);
    for (const std::string& path : beside())
        EXPECT_TRUE(path.ends_with("moved") || read_file(path + "/theirs") == "theirs") << path;
}

}  // namespace
}  // namespace convoy::test
