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
#include <utility>

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

/// The path of an entry of an open folder.
fs::path path_at(int folder, const char* name) {
    if (folder == AT_FDCWD || *name == '/') return name;
    return fs::read_symlink("/proc/self/fd/" + std::to_string(folder)) / name;
}

void note_rename(const fs::path& from, const fs::path& to) {
    if (!CallLog::current()) return;
    struct stat about{};
    ::stat(from.c_str(), &about);
    CallLog::current()->calls.push_back({Call::rename, real_path(from), real_path(to), about.st_size});
}

AfterRename*& after_rename() {
    static AfterRename* rename = nullptr;
    return rename;
}
/// Notes a rename, does it, and lets happen what is to happen then.
int rename_noted(int above, const char* from, int above_to, const char* to, unsigned flags) {
    const bool watched = CallLog::current() || after_rename();
    const fs::path from_path = watched ? path_at(above, from) : "", to_path = watched ? path_at(above_to, to) : "";
    note_rename(from_path, to_path);
    const int result = int(::syscall(SYS_renameat2, above, from, above_to, to, flags)), code = errno;
    if (result == 0 && after_rename()) after_rename()->note(from_path, to_path);
    errno = code;
    return result;
}

AfterRead*& after_read() {
    static AfterRead* read = nullptr;
    return read;
}

AfterLook*& after_look() {
    static AfterLook* look = nullptr;
    return look;
}
void note_look(const char* path) {
    const int code = errno;
    if (after_look()) after_look()->note(path);
    errno = code;
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

AfterLook::AfterLook(std::string path, std::function<void()> then, int times)
    : path_(std::move(path)), then_(std::move(then)), times_(times) {
    after_look() = this;
}
AfterLook::~AfterLook() { after_look() = nullptr; }
void AfterLook::note(const char* path) {
    if (times_ > 0 && path_ == path && --times_ == 0) then_();
}

AfterRename::AfterRename(std::string path, std::function<void()> then)
    : path_(std::move(path)), then_(std::move(then)) {
    after_rename() = this;
}
AfterRename::~AfterRename() { after_rename() = nullptr; }
void AfterRename::note(const std::string& from, const std::string& to) {
    if (from != path_ && to != path_) return;
    const std::function<void()> then = std::exchange(then_, nullptr);
    if (then) then();
}

AfterRead::AfterRead(std::function<void()> then) : then_(std::move(then)) { after_read() = this; }
AfterRead::~AfterRead() { after_read() = nullptr; }
void AfterRead::note() {
    const std::function<void()> then = std::exchange(then_, nullptr);
    if (then) then();
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
    if (convoy::test::after_read()) convoy::test::after_read()->note();
    return read;
}
int rename(const char* from, const char* to) noexcept { return ::renameat(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int above, const char* from, int above_to, const char* to) noexcept {
    return convoy::test::rename_noted(above, from, above_to, to, 0);
}
int renameat2(int above, const char* from, int above_to, const char* to, unsigned flags) noexcept {
    return convoy::test::rename_noted(above, from, above_to, to, flags);
}
int lstat(const char* path, struct stat* about) noexcept {
    const int result = int(::syscall(SYS_newfstatat, AT_FDCWD, path, about, AT_SYMLINK_NOFOLLOW));
    convoy::test::note_look(path);
    return result;
}
int fstatat(int above, const char* path, struct stat* about, int flags) noexcept {
    const int result = int(::syscall(SYS_newfstatat, above, path, about, flags));
    convoy::test::note_look(path);
    return result;
}
}
