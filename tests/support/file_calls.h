// The test program's own fsync, fdatasync and rename, which the linker takes before the C
// library's: they note what is called, and can be held up as by a slow disk.
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

/// Without links, as the kernel names open files; `path` need not be there.
std::string real_path(const std::string& path);

}  // namespace convoy::test
