// Folders compared with ls, and folders that cannot be read.
#include "base/folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

const std::string long_name(256, 'n');

TEST(Folder, HasTheEntriesThatLsShows) {
    const TempDir dir;
    ASSERT_EQ(run("cd " + dir.path() + " && touch b .a 'c d' && mkdir e && ln -s nowhere f && ln -s g g").code, 0);
    std::error_code error;
    std::vector<fs::path> entries = entries_of(dir.path(), error);
    EXPECT_FALSE(error);
    std::sort(entries.begin(), entries.end());
    std::string text;
    for (const fs::path& path : entries) text += path.filename().string() + "\n";
    EXPECT_EQ(text, run("LC_ALL=C ls -A " + dir.path()).out);
}

TEST(Folder, ThatCannotBeReadIsNoException) {
    const TempDir dir;
    ASSERT_EQ(run("cd " + dir.path() + " && ln -s b a && ln -s a b && touch file").code, 0);
    const auto code = [&](const std::string& name) {
        std::error_code error;
        EXPECT_TRUE(entries_of(dir.path(name), error).empty());
        return std::errc(error.value());
    };
    EXPECT_EQ(code("a"), std::errc::too_many_symbolic_link_levels);
    EXPECT_EQ(code(long_name), std::errc::filename_too_long);
    EXPECT_EQ(code("file"), std::errc::not_a_directory);
    EXPECT_EQ(code("none"), std::errc::no_such_file_or_directory);
    EXPECT_TRUE(is_there(dir.path("file")));
    for (const std::string& name : {std::string("a"), long_name, std::string("file/x"), std::string("none")})
        EXPECT_FALSE(is_there(dir.path(name))) << name;
}

TEST(Folder, WhatACallThrowsNamesThePath) {
    const TempDir dir;
    try {
        (void)fs::file_size(dir.path("none"));
        FAIL();
    } catch (const fs::filesystem_error& thrown) {
        EXPECT_EQ("", problem_of_error(Exit::io, {dir.path("none") + ": No such file or directory; check"},
                                       [&] { throw error_at_path(thrown); }));
    }
}

}  // namespace
}  // namespace convoy::test
