// The test program's own fsync, fdatasync, rename and pread, which the linker takes before the C
// library's: they note what is called, can be held up as by a slow disk, and fail as by a bad one.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace convoy::test {

struct Call {
    enum Kind { sync, rename } kind;
    std::string path, to;  ///< without links; `to` of a rename
    off_t bytes;           ///< size of the file at that moment
};

/// What is called while one of these exists, in the order of the calls; one thread at a time may
/// call.
class CallLog {
public:
    CallLog() { current() = this; }
    ~CallLog() { current() = nullptr; }
    CallLog(const CallLog&) = delete;
    static CallLog*& current();
    std::vector<Call> calls;
};

/// While one of these exists, no sync of any thread ends.
class SlowDisk {
public:
    SlowDisk();
    ~SlowDisk();
    SlowDisk(const SlowDisk&) = delete;
    /// Returns when a sync is held up.
    void wait_until_used() const;
};

/// While one of these exists, pread of its thread is interrupted (EINTR) every other time, and
/// otherwise reads at most `most` bytes, or fails with `error`.
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

/// Bytes that pread of any thread has read so far.
size_t bytes_read();

/// Without links, as the kernel names open files; `path` need not be there.
std::string real_path(const std::string& path);

}  // namespace convoy::test
