#include "tests/support/file_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <mutex>

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool closed = false;
    int waiting = 0;
};
Gate& gate() {
    static Gate gate;
    return gate;
}

std::atomic<size_t>& all_bytes_read() {
    static std::atomic<size_t> bytes = 0;
    return bytes;
}

void pass_gate() {
    std::unique_lock lock(gate().mutex);
    ++gate().waiting;
    gate().changed.notify_all();
    gate().changed.wait(lock, [] { return !gate().closed; });
    --gate().waiting;
}

void note_sync(int fd) {
    pass_gate();
    if (!CallLog::current()) return;
    struct stat about{};
    ::fstat(fd, &about);
    CallLog::current()->calls.push_back(
        {Call::sync, fs::read_symlink("/proc/self/fd/" + std::to_string(fd)), "", about.st_size});
}

std::string path_at(int folder, const char* name) {
    return folder == AT_FDCWD ? name : "/proc/self/fd/" + std::to_string(folder) + "/" + name;
}

void note_rename(const std::string& from, const std::string& to) {
    if (!CallLog::current()) return;
    struct stat about{};
    ::stat(from.c_str(), &about);
    CallLog::current()->calls.push_back({Call::rename, real_path(from), real_path(to), about.st_size});
}

}  // namespace

size_t bytes_read() { return all_bytes_read(); }

CallLog*& CallLog::current() {
    static CallLog* log = nullptr;
    return log;
}

BadReads*& BadReads::current() {
    static thread_local BadReads* reads = nullptr;
    return reads;
}

SlowDisk::SlowDisk() {
    const std::lock_guard lock(gate().mutex);
    gate().closed = true;
}
SlowDisk::~SlowDisk() {
    const std::lock_guard lock(gate().mutex);
    gate().closed = false;
    gate().changed.notify_all();
}
void SlowDisk::wait_until_used() const {
    std::unique_lock lock(gate().mutex);
    gate().changed.wait(lock, [] { return gate().waiting > 0; });
}

std::string real_path(const std::string& path) { return fs::weakly_canonical(path); }

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
ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
    if (convoy::test::BadReads* bad = convoy::test::BadReads::current()) {
        const bool interrupted = bad->calls++ % 2 == 0;
        if (interrupted || bad->error != 0) {
            errno = interrupted ? EINTR : bad->error;
            return -1;
        }
        bytes = std::min(bytes, bad->most);
    }
    const ssize_t read = ::syscall(SYS_pread64, fd, to, bytes, offset);
    if (read > 0) convoy::test::all_bytes_read() += size_t(read);
    return read;
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
    using convoy::test::path_at;
    convoy::test::note_rename(path_at(from_folder, from), path_at(to_folder, to));
    return int(::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}
int rename(const char* from, const char* to) noexcept { return ::renameat(AT_FDCWD, from, AT_FDCWD, to); }
}
