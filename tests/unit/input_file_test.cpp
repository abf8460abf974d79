// Text as saved by editors on other systems.
#include "base/input_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/descriptor.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using Lines = std::vector<std::string>;

class InputFile : public testing::Test {
protected:
    Lines lines(const std::string& bytes) const {
        write_file(path_, bytes);
        return lines_of_input(path_, 1 << 20, "it takes lines");
    }
    std::string problem(const std::string& bytes, const std::vector<std::string>& words) const {
        return problem_of_error(Exit::bad_input, words, [&] { lines(bytes); });
    }
    TempDir dir_;
    const std::string path_ = dir_.path("text.txt"), mark_ = "\xEF\xBB\xBF";
};

TEST_F(InputFile, LineEndsAndMarksOfOtherSystemsAreRead) {
    const Lines wanted = {"a b", "", "c"};
    EXPECT_EQ(lines("a b\n\nc\n"), wanted);
    EXPECT_EQ(lines("a b\n\nc"), wanted);
    EXPECT_EQ(lines(mark_ + "a b\r\n\r\nc\r\n"), wanted);
    EXPECT_EQ(lines("a b\r\rc\r"), wanted) << "old Macs";
    EXPECT_EQ(lines(mark_ + "a b \t\n" + mark_ + "\nc  "), wanted) << "two files that were joined";
    EXPECT_EQ(lines(mark_ + mark_ + "a b\n\nc"), wanted) << "a mark that was saved with a mark";
    EXPECT_EQ(lines("a b\n\nc\xEF\xBB\n")[2], "c\xEF\xBB") << "half a mark is none";
    EXPECT_TRUE(lines("").empty());
    EXPECT_TRUE(lines(mark_).empty() || lines(mark_) == Lines{""});
}

TEST_F(InputFile, Utf16IsRefusedByName) {
    const std::string plain = "cat 0\n";
    std::string little, big;
    for (const char c : plain) {
        little += c;
        little += '\0';
        big += '\0';
        big += c;
    }
    for (const std::string& text : {"\xFF\xFE" + little, "\xFE\xFF" + big, little, big})
        EXPECT_EQ("", problem(text, {path_, "is UTF-16", "save it as UTF-8", "it takes lines"}));
    EXPECT_EQ("", problem(std::string("7\0", 2), {"is UTF-16"})) << "a label of one digit";
    EXPECT_EQ("", problem(std::string("\xFF\xFE\0\0c\0\0\0", 8), {"UTF-32"}));
}

TEST_F(InputFile, AZeroByteIsNamedByItsLine) {
    EXPECT_EQ("", problem(std::string("cat 0\ndog\0 1\n", 13), {path_ + ":2: holds a zero byte", "it takes lines"}));
}

// The look and the reading are of one opened file, so that no other file can come between them.
TEST_F(InputFile, WhatMayNeverDeliverIsRefusedWhereItIsRead) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    for (const std::string& path : {path_, std::string("/dev/zero"), std::string("/dev/null"), dir_.path()})
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {path + ": is not a regular file", "it takes lines"},
                                       [&] { lines_of_input(path, 1 << 20, "it takes lines"); }));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {dir_.path("none") + ": cannot be read"},
                                   [&] { text_of_input(dir_.path("none"), 9, "it takes lines"); }));
}

// It could keep the command waiting, a byte every few seconds.
TEST_F(InputFile, APipeOfAnotherUserIsRefused) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make a pipe of another user";
    ASSERT_EQ(::mkfifo(path_.c_str(), 0666), 0);
    ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
    const Descriptor writer(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::write(writer.fd(), "#", 1), 1);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_ + ": is a pipe of another user (uid 65534)", "it takes"},
                                   [&] { text_of_input(path_, 9, "it takes text", Pipes::read); }));
}

TEST_F(InputFile, APipeIsReadToItsEndWhereItIsAllowed) {
    const auto read = [&] { return text_of_input(path_, 9, "it takes text", Pipes::read); };
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_ + ": no process writes into this pipe"}, read));
    for (const char* writer :
         {"printf 'one\ntwo'", "printf one; sleep 0.1; printf '\ntwo'", "sleep 0.1; printf 'one\ntwo'"}) {
        std::jthread other([&] { run(std::string("{ ") + writer + "; } >" + path_); });
        EXPECT_EQ(read(), "one\ntwo") << writer;
    }
    std::jthread other([&] { run("timeout 5 head -c 10 /dev/zero >" + path_); });
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_ + ": holds more than 9 bytes"}, read));
}

// A list of a few bytes could otherwise take gigabytes.
TEST(InputFileHole, AHoleIsNoText) {
    const TempDir dir;
    const std::string path = dir.path("list.txt");
    write_file(path, "a\n");
    std::filesystem::resize_file(path, size_t(1000) << 20);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path, "are a hole"},
                                   [&] { lines_of_input(path, size_t(1) << 30, "it takes lines"); }));
}

}  // namespace
}  // namespace convoy::test
