// What the watchdog says before it ends the job; that it does is in tests/faults.
#include "comm/watchdog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "tests/support/support.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

/// stderr as a file, until the end of the scope.
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
        for (int i = 0; i < 30; ++i) pause();  // two looks more
        EXPECT_EQ(said.warnings(), stall);
    }
    test_comm().activity().enter("host code between operations");
}

}  // namespace
}  // namespace convoy::test
