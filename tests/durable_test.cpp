// What the file system is asked for, in order: a file is synced when it is complete, then renamed,
// then its folder is synced. This file has the program's fsync, fdatasync and rename, which the
// linker takes before the C library's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "model/models.h"
#include "support.h"
#include "test_comm.h"
#include "tests/op_harness.h"
#include "train/checkpoint.h"
#include "train/metrics.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

struct Call {
    enum Kind { sync, rename } kind;
    std::string path, to;  ///< `to` of a rename
    off_t bytes;           ///< size of the file at that moment
};

/// What is called while one of these exists, in the order of the calls. The tests of this file have
/// one thread.
class CallLog {
public:
    CallLog() { current() = this; }
    ~CallLog() { current() = nullptr; }
    CallLog(const CallLog&) = delete;
    static CallLog*& current() {
        static CallLog* log = nullptr;
        return log;
    }
    std::vector<Call> calls;
};

/// Without links, as the kernel names open files; `path` need not be there.
std::string real_path(const std::string& path) { return fs::weakly_canonical(path); }

void note_sync(int fd) {
    if (!CallLog::current()) return;
    struct stat about {};
    ::fstat(fd, &about);
    CallLog::current()->calls.push_back(
        {Call::sync, fs::read_symlink("/proc/self/fd/" + std::to_string(fd)), "", about.st_size});
}

void note_rename(const char* from, const char* to) {
    if (!CallLog::current()) return;
    struct stat about {};
    ::stat(from, &about);
    CallLog::current()->calls.push_back({Call::rename, real_path(from), real_path(to), about.st_size});
}

}  // namespace
}  // namespace convoy::test

extern "C" {
int fsync(int fd) {
    convoy::test::note_sync(fd);
    return int(::syscall(SYS_fsync, fd));
}
int fdatasync(int fd) {
    convoy::test::note_sync(fd);
    return int(::syscall(SYS_fdatasync, fd));
}
int rename(const char* from, const char* to) noexcept {
    convoy::test::note_rename(from, to);
    return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}
}

namespace convoy::test {
namespace {

/// What is wrong with how `path` was put in place, empty if nothing: its partial file synced with
/// all its bytes, one rename, and the folder synced after it.
std::string problem_of(const std::vector<Call>& calls, const std::string& file) {
    const std::string path = real_path(file);
    const auto renamed =
        std::find_if(calls.begin(), calls.end(), [&](const Call& c) { return c.kind == Call::rename && c.to == path; });
    if (renamed == calls.end()) return path + ": nothing was renamed to it";
    const auto synced = [](const std::string& what) {
        return [what](const Call& c) { return c.kind == Call::sync && c.path == what; };
    };
    const auto before = std::find_if(calls.begin(), renamed, synced(renamed->path));
    if (before == renamed) return path + ": not synced before the rename";
    if (before->bytes != renamed->bytes || before->bytes != off_t(fs::file_size(path)))
        return path + ": " + std::to_string(before->bytes) + " bytes when it was synced, " +
               std::to_string(fs::file_size(path)) + " now";
    if (std::find_if(renamed, calls.end(), synced(fs::path(path).parent_path())) == calls.end())
        return path + ": its folder is not synced after the rename";
    return "";
}

class Durable : public testing::Test {
protected:
    TempDir dir_;
    const ModelFile about_{
        {"linear", 1, 1, 10, 10}, std::vector<float>(10, 0.5f), std::vector<float>(10, 0.5f), {"a", "b"}};
    const std::unique_ptr<Backend> backend_ = make_test_backend("cpu");
    const Graph graph_ = build_model(about_.model);
    const OptimizerSpec spec_;
    const State state_{graph_, *backend_, &spec_};
};

TEST_F(Durable, Checkpoints) {
    Checkpoint c;
    c.model = about_;
    c.identity = {{"seed", "1"}};
    c.weights.resize(state_.weights().count());
    c.optimizer.resize(state_.optimizer_block().count());
    CallLog log;
    write_checkpoint(checkpoint_path(dir_.path(), 10), c, state_);
    EXPECT_EQ("", problem_of(log.calls, checkpoint_path(dir_.path(), 10)));
}

TEST_F(Durable, Models) {
    CallLog log;
    save_model(dir_.path("model.h5"), about_, state_, *backend_);
    EXPECT_EQ("", problem_of(log.calls, dir_.path("model.h5")));
}

TEST_F(Durable, EveryPublishOfMetrics) {
    CallLog log;
    Metrics metrics(dir_.path());
    for (int64_t step = 1; step <= 3; ++step) {
        EXPECT_EQ("", problem_of(log.calls, dir_.path("metrics.h5"))) << "publish before step " << step;
        log.calls.clear();
        metrics.add(TrainRow{.step = step});
        metrics.publish();
    }
    EXPECT_EQ("", problem_of(log.calls, dir_.path("metrics.h5")));
}

// The log itself: what is done the wrong way round is told from what is right.
TEST_F(Durable, TheTestSeesWhatIsMissing) {
    const std::string partial = dir_.path("file.partial"), path = dir_.path("file");
    const auto sync = [](const std::string& what) {
        const int fd = ::open(what.c_str(), O_RDONLY);
        EXPECT_EQ(::fsync(fd), 0);
        ::close(fd);
    };
    const auto problem = [&](bool file_first, bool folder_last) {
        write_file(partial, "0123456789");
        CallLog log;
        if (file_first) sync(partial);
        fs::rename(partial, path);
        if (!file_first) sync(path);
        if (folder_last) sync(dir_.path());
        return problem_of(log.calls, path);
    };
    EXPECT_EQ("", problem(true, true));
    EXPECT_NE(problem(false, true).find("not synced before"), std::string::npos);
    EXPECT_NE(problem(true, false).find("folder is not synced"), std::string::npos);
}

}  // namespace
}  // namespace convoy::test
