// Messages of the watchdog before it ends the job; tests/faults checks that it ends the job.
#include "comm/watchdog.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "comm/stall_reports.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

/// Redirects stderr to a file until the end of the scope.
class ErrorFile {
public:
    explicit ErrorFile(const std::string& path) : path_(path), before_(::dup(STDERR_FILENO)) {
        write_file(path, "");
        std::FILE* file = std::freopen(path.c_str(), "a", stderr);
        require(file != nullptr, "stderr can be a file");
    }
    ~ErrorFile() {
        std::fflush(stderr);
        ::dup2(before_, STDERR_FILENO);
        ::close(before_);
    }
    ErrorFile(const ErrorFile&) = delete;
    int warnings() const {
        std::fflush(stderr);
        const std::string text = read_file(path_);
        int found = 0;
        for (size_t at = 0; (at = text.find("warning: rank 0 is in 'a stall'", at)) != std::string::npos; ++at) ++found;
        return found;
    }

private:
    const std::string path_;
    const int before_;
};

// A tenth of the limit is 0.5 seconds, and the watchdog looks five times a second.
TEST(Watchdog, WarnsOncePerStall) {
    const TempDir dir;
    const ErrorFile said(dir.path("stderr"));
    const Watchdog watchdog(test_comm(), 5);
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
    for (int stall = 1; stall <= 2; ++stall) {
        for (int i = 0; i < 50; ++i, pause()) test_comm().activity().enter("a stall");  // progress
        EXPECT_EQ(said.warnings(), stall - 1);
        for (int i = 0; i < 300 && said.warnings() < stall; ++i) pause();
        for (int i = 0; i < 30; ++i) pause();  // two more looks
        EXPECT_EQ(said.warnings(), stall);
    }
    test_comm().activity().enter("host code between operations");
}

// Other users may be able to write in the run folder.
TEST(WatchdogReports, FollowNoLinkAndWaitForNoPipe) {
    const TempDir dir;
    write_file(dir.path("victim"), "mine\n");
    std::filesystem::create_directories(dir.path("run/stalled"));
    std::filesystem::create_symlink(dir.path("victim"), dir.path("run/stalled/rank-0.txt"));
    std::filesystem::create_symlink(dir.path("victim"), dir.path("run/stalled/rank-1.txt"));
    ASSERT_EQ(::mkfifo(dir.path("run/stalled/rank-2.txt").c_str(), 0666), 0);
    const StallReports reports(dir.path("run/stalled"));
    ASSERT_TRUE(reports.usable());
    reports.write(0, "rank 0 on a is in 'x'");
    reports.write(0, "rank 0 on a is in 'y'");
    EXPECT_EQ(read_file(dir.path("run/stalled/rank-0.txt")), "rank 0 on a is in 'y'\n");
    EXPECT_EQ(reports.read(0), "rank 0 on a is in 'y'");
    EXPECT_EQ(reports.read(1), "") << "a link";
    EXPECT_EQ(reports.read(2), "") << "a pipe";
    EXPECT_EQ(reports.read(3), "") << "none";
    EXPECT_EQ(read_file(dir.path("victim")), "mine\n");
}

TEST(WatchdogReports, GoIntoTheFolderThatWasOpened) {
    const TempDir dir;
    for (const char* folder : {"run", "victim"}) std::filesystem::create_directories(dir.path(folder));
    const HeldFolder run(dir.path("run"));
    std::filesystem::rename(dir.path("run"), dir.path("moved"));
    std::filesystem::create_directory_symlink(dir.path("victim"), dir.path("run"));
    StallReports(run, "stalled").write(3, "x");
    EXPECT_EQ(read_file(dir.path("moved/stalled/rank-3.txt")), "x\n");
    EXPECT_TRUE(std::filesystem::is_empty(dir.path("victim")));
}

TEST(WatchdogReports, AreNotInAFolderThatIsALink) {
    const TempDir dir;
    std::filesystem::create_directories(dir.path("victim"));
    std::filesystem::create_directories(dir.path("run"));
    std::filesystem::create_directory_symlink(dir.path("victim"), dir.path("run/stalled"));
    const StallReports reports(dir.path("run/stalled"));
    EXPECT_FALSE(reports.usable());
    reports.write(0, "x");
    EXPECT_EQ(reports.read(0), "");
    EXPECT_TRUE(std::filesystem::is_empty(dir.path("victim")));
}

}  // namespace
}  // namespace convoy::test
