// The file of times measured on one kind of processor: written by one process at a time, read in
// whole lines.
#include "backend/cpu/tuning_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/cache_folder.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

using cpu::TuningFile;

class TuningFiles : public testing::Test {
protected:
    TuningFiles() { ::setenv("XDG_CACHE_HOME", dir_.path().c_str(), 1); }
    ~TuningFiles() override {
        before_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    }
    std::string path() const { return dir_.path("convoy/convolutions-1-A-CPU--AVX---oneDNN-3.2.0.txt"); }

    const std::string before_ = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
    const std::string kind_ = "A CPU (AVX), oneDNN 3.2.0";
    TempDir dir_;
};

TEST_F(TuningFiles, GrowByLines) {
    {
        TuningFile file(kind_);
        ASSERT_TRUE(file.usable());
        ASSERT_TRUE(file.lock());
        EXPECT_EQ(file.read(), "");
        EXPECT_TRUE(file.append("a = 1\n"));
        EXPECT_TRUE(file.append(""));
    }
    TuningFile again(kind_);
    EXPECT_TRUE(again.append("b = 2\n"));
    EXPECT_EQ(again.read(), "a = 1\nb = 2\n");
    EXPECT_EQ(read_file(path()), "a = 1\nb = 2\n");
    EXPECT_EQ(TuningFile("Another CPU").read(), "");
}

TEST_F(TuningFiles, BelongToOneProcessAtATime) {
    TuningFile second(kind_);
    {
        TuningFile first(kind_);
        ASSERT_TRUE(first.lock());
        EXPECT_FALSE(second.lock());
    }
    EXPECT_TRUE(second.lock());
}

// Any user who may read the file could keep every training waiting.
TEST_F(TuningFiles, AreNotHeldByAReader) {
    TuningFile file(kind_);
    const int reader = ::open(path().c_str(), O_RDONLY | O_CLOEXEC);
    struct flock reading{};
    reading.l_type = F_RDLCK;
    ASSERT_EQ(::fcntl(reader, F_OFD_SETLK, &reading), 0);
    EXPECT_TRUE(file.lock());
    EXPECT_TRUE(file.append("a = 1\n"));
    ::close(reader);
}

TEST_F(TuningFiles, HaveNoHalfLines) {
    write_file(dir_.path("x"), "");  // so that the folder is there
    TuningFile file(kind_);
    ASSERT_TRUE(file.append("whole = 1\n"));
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit few{.rlim_cur = 14, .rlim_max = limit.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &few);
    EXPECT_FALSE(file.append("cut off = 2\n"));
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(read_file(path()), "whole = 1\n");
    write_file(path(), "whole = 1\nhal");
    EXPECT_EQ(TuningFile(kind_).read(), "whole = 1\n");
}

// Others may be able to write in the folder of a cache; what is in it can be made again.
TEST_F(TuningFiles, AreRegularAndOfAFewMegabytes) {
    write_file(path(), "whole = 1\n");
    std::filesystem::remove(path());
    ASSERT_EQ(::mkfifo(path().c_str(), 0666), 0);
    EXPECT_FALSE(TuningFile(kind_).usable()) << "reading a pipe would wait for ever";
    EXPECT_EQ(text_of_cache(path()), "");
    std::filesystem::remove(path());
    write_file(path(), "whole = 1\n");
    std::filesystem::resize_file(path(), (16 << 20) + 1);
    EXPECT_FALSE(TuningFile(kind_).usable());
    EXPECT_EQ(text_of_cache(path()), "");
    std::filesystem::resize_file(path(), 16 << 20);
    EXPECT_TRUE(TuningFile(kind_).usable());
    EXPECT_EQ(text_of_cache(path()).size(), size_t(16) << 20);
    EXPECT_EQ(text_of_cache(path()).substr(0, 10), "whole = 1\n");
    EXPECT_EQ(text_of_cache(dir_.path()), "") << "a folder";
    EXPECT_EQ(text_of_cache(dir_.path("none")), "");
}

TEST_F(TuningFiles, NeedAPlace) {
    ::setenv("XDG_CACHE_HOME", "/dev/null", 1);
    EXPECT_FALSE(TuningFile(kind_).usable());
    const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "/";
    ::unsetenv("XDG_CACHE_HOME");
    ::unsetenv("HOME");
    EXPECT_FALSE(TuningFile(kind_).usable());
    ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace convoy::test
