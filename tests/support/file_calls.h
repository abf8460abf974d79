// The test program's own fsync, fdatasync, rename, renameat, renameat2, lstat, fstatat and pread.
// The linker prefers them to the C library's. They record their calls, can simulate a slow or
// failing disk, and can run a function between two calls.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace convoy::test {

struct Call {
    enum Kind { sync, rename } kind;
    std::string path, to;  ///< links are resolved; `to` is for rename
    off_t bytes;           ///< size of the file at that moment
};

/// Records the calls in order while the object exists. Only one thread at a time may call.
class CallLog {
public:
    CallLog() { current() = this; }
    ~CallLog() { current() = nullptr; }
    CallLog(const CallLog&) = delete;
    static CallLog*& current();
    std::vector<Call> calls;
};

/// Calls `then` once, right after this process has looked at `path` for the `times`-th time (lstat,
/// or fstatat of the whole path): what another user may do between a check and what comes after it.
class AfterLook {
public:
    AfterLook(std::string path, std::function<void()> then, int times = 1);
    ~AfterLook();
    AfterLook(const AfterLook&) = delete;
    bool happened() const { return times_ == 0; }
    void note(const char* path);

private:
    const std::string path_;
    const std::function<void()> then_;
    int times_;
};

/// Calls `then` once, right after something was renamed from or to `path`.
class AfterRename {
public:
    AfterRename(std::string path, std::function<void()> then);
    ~AfterRename();
    AfterRename(const AfterRename&) = delete;
    void note(const std::string& from, const std::string& to);

private:
    const std::string path_;
    std::function<void()> then_;
};

/// Calls `then` once, right after the next pread of this process.
class AfterRead {
public:
    explicit AfterRead(std::function<void()> then);
    ~AfterRead();
    AfterRead(const AfterRead&) = delete;
    void note();

private:
    std::function<void()> then_;
};

/// Blocks every sync of every thread while the object exists.
class SlowDisk {
public:
    SlowDisk();
    ~SlowDisk();
    SlowDisk(const SlowDisk&) = delete;
    /// Blocks until a sync is held up.
    void wait_until_used() const;
};

/// While one of these exists, pread of its thread is interrupted (EINTR) every other time.
/// Otherwise pread reads at most `most` bytes, or fails with `error`.
class BadReads {
public:
    explicit BadReads(size_t most_bytes, int code = 0) : most(most_bytes), error(code) { current() = this; }
    ~BadReads() { current() = nullptr; }
    BadReads(const BadReads&) = delete;
    static BadReads*& current();
    const size_t most;
    const int error;
    int calls = 0;
};

/// Returns the number of bytes that pread of any thread has read so far.
size_t bytes_read();

/// Returns the path with links resolved, as the kernel names open files. `path` need not exist.
std::string real_path(const std::string& path);

}  // namespace convoy::test
