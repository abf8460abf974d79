// Files that several threads read: errors and short reads of pread, and how many files stay open.
#include "data/open_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <barrier>
#include <filesystem>
#include <thread>

#include "tests/support/file_calls.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class OpenFilesTest : public testing::Test {
protected:
    /// Makes a file of `bytes` bytes; files with other names have other bytes.
    OpenFiles::File file(const std::string& name, size_t bytes = 5000) {
        std::string content(bytes, '\0');
        for (size_t i = 0; i < bytes; ++i) content[i] = char(i * 7 + i / 256 + name.size() + size_t(name.back()));
        write_file(dir_.path(name), content);
        return {dir_.path(name), bytes};
    }
    /// Counts descriptors of this process that are files of the folder, according to the kernel.
    int descriptors() const {
        int count = 0;
        for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
            std::error_code gone;  // the folder's own
            count += fs::read_symlink(entry.path(), gone).string().starts_with(real_path(dir_.path()) + "/");
        }
        return count;
    }
    static std::string part(const OpenFiles::File& of, size_t offset, size_t bytes) {
        return read_file(of.path).substr(offset, bytes);
    }

    TempDir dir_;
    std::string got_ = std::string(5000, '?');
    uint8_t* to() { return reinterpret_cast<uint8_t*>(got_.data()); }
};

TEST_F(OpenFilesTest, InterruptedAndShortReadsGoOn) {
    const OpenFiles::File one = file("one");
    OpenFiles files({one}, 1);
    const BadReads reads(300);
    EXPECT_EQ("", files.read(0, 123, 4001, to()));
    EXPECT_EQ(got_.substr(0, 4001), part(one, 123, 4001));
    EXPECT_EQ(got_[4001], '?');
    EXPECT_EQ(reads.calls, 2 * 14);
}

TEST_F(OpenFilesTest, WhatIsWrongIsSaid) {
    OpenFiles files({file("one"), file("two"), file("three"), file("four")}, 9);
    {
        const BadReads reads(0, EIO);
        EXPECT_NE(files.read(0, 0, 1, to()).find("cannot be read: Input/output error; the disk"), std::string::npos);
    }
    EXPECT_EQ("", files.read(0, 4000, 1000, to()));
    fs::resize_file(dir_.path("one"), 4999);  // while it is open
    EXPECT_NE(files.read(0, 4000, 1000, to()).find("truncated"), std::string::npos);
    fs::resize_file(dir_.path("two"), 4999);
    EXPECT_NE(files.read(1, 0, 1, to()).find("has 4999 bytes, and had 5000"), std::string::npos);
    fs::remove(dir_.path("three"));
    EXPECT_NE(files.read(2, 0, 1, to()).find("No such file"), std::string::npos);
    fs::remove(dir_.path("four"));
    ASSERT_EQ(mkfifo(dir_.path("four").c_str(), 0600), 0);  // has no writer
    EXPECT_NE(files.read(3, 0, 1, to()).find("not a regular file"), std::string::npos);
    EXPECT_EQ(descriptors(), 1);
}

TEST_F(OpenFilesTest, KeepsSoManyOpen) {
    std::vector<OpenFiles::File> all;
    for (int i = 0; i < 12; ++i) all.push_back(file("file" + std::to_string(i)));
    {
        OpenFiles files(all, 5);
        EXPECT_EQ(descriptors(), 0);
        for (const size_t i : {0, 1, 1, 2, 3, 4, 5, 0, 11, 10, 9, 8, 7, 6, 0, 1}) {
            EXPECT_EQ("", files.read(i, i, 100, to()));
            EXPECT_EQ(got_.substr(0, 100), part(all[i], i, 100)) << i;
            EXPECT_LE(descriptors(), 5);
        }
        EXPECT_EQ(descriptors(), 5);
        fs::remove(all[1].path);  // still open
        EXPECT_EQ("", files.read(1, 0, 1, to()));
    }
    EXPECT_EQ(descriptors(), 0);
}

TEST_F(OpenFilesTest, ThreadsTakeOneAnothersFiles) {
    std::vector<OpenFiles::File> all;
    std::vector<std::string> contents;
    for (int i = 0; i < 20; ++i) {
        all.push_back(file("file" + std::to_string(i)));
        contents.push_back(read_file(all.back().path));
    }
    OpenFiles files(all, 3);
    std::vector<int> wrong(8, 0);
    {
        std::vector<std::jthread> threads;
        for (size_t t = 0; t < wrong.size(); ++t)
            threads.emplace_back([&, t] {
                std::string got(500, '?');
                for (size_t k = 0; k < 2000; ++k) {
                    const size_t i = (k * (2 * t + 1) + t) % all.size(), from = k * 31 % 4500;
                    wrong[t] += !files.read(i, from, got.size(), reinterpret_cast<uint8_t*>(got.data())).empty();
                    wrong[t] += contents[i].compare(from, got.size(), got) != 0;
                }
            });
    }
    EXPECT_EQ(wrong, std::vector<int>(8, 0));
    EXPECT_EQ(descriptors(), 3);
}

// Several threads find a file closed at the same moment, and each opens it.
TEST_F(OpenFilesTest, AFileThatThreadsOpenAtOnceIsKeptOnce) {
    const std::vector<OpenFiles::File> all = {file("one"), file("two"), file("three")};
    for (int round = 0; round < 300; ++round) {
        OpenFiles files(all, 3);
        std::barrier start(4);
        {
            std::vector<std::jthread> threads;
            for (int t = 0; t < 4; ++t)
                threads.emplace_back([&] {
                    for (size_t i = 0; i < all.size(); ++i) {
                        uint8_t byte = 0;
                        start.arrive_and_wait();
                        files.read(i, 0, 1, &byte);
                    }
                });
        }
        ASSERT_EQ(descriptors(), 3) << "round " << round;
    }
}

}  // namespace
}  // namespace convoy::test
