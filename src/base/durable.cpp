#include "base/durable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/descriptor.h"
#include "base/file_error.h"
#include "base/held_file.h"

namespace convoy {
namespace {

std::string new_partial() { return ".convoy-" + random_name(12) + ".partial"; }

[[noreturn]] void discard(const HeldPlace& place, const std::string& partial) {
    const int reason = errno;
    ::unlinkat(place.folder().fd(), partial.c_str(), 0);  // gives the space back
    errno = reason;
    cannot_write(place.shown());
}

/// Renames a file to an unused name. On failure returns false and sets errno: EEXIST if the name is
/// used.
bool rename_new(int folder, const std::string& from, const std::string& to) {
    if (::renameat2(folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    // Some network file systems cannot rename so, but can make hard links.
    return ::linkat(folder, from.c_str(), folder, to.c_str(), 0) == 0 && ::unlinkat(folder, from.c_str(), 0) == 0;
}

void put_in_place(const HeldPlace& place, const std::string& partial, IfThere if_there) {
    const int folder = place.folder().fd();
    const bool done = if_there == IfThere::refuse
                          ? rename_new(folder, partial, place.name())
                          : ::renameat(folder, partial.c_str(), folder, place.name().c_str()) == 0;
    if (!done && if_there == IfThere::refuse && errno == EEXIST) {
        ::unlinkat(folder, partial.c_str(), 0);
        fail(Exit::io, place.shown() + ": a file has appeared there meanwhile, and is kept; choose another, or " +
                           "replace it with --overwrite");
    }
    if (!done) discard(place, partial);
    if (::fsync(folder) != 0) cannot_write(place.shown());
}

void write_and_put(const HeldPlace& place, const std::string& partial, const Descriptor& file,
                   const std::vector<unsigned char>& bytes, IfThere if_there) {
    if (!write_all(file.fd(), bytes.data(), bytes.size()) || ::fsync(file.fd()) != 0) discard(place, partial);
    put_in_place(place, partial, if_there);
}

/// Makes the file that becomes `place`. The message of an error names `place`.
Descriptor open_partial(const HeldPlace& place, const std::string& partial) {
    Descriptor file(
        ::openat(place.folder().fd(), partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.valid()) cannot_write(place.shown());
    return file;
}

}  // namespace

constexpr int locked_by_a_reader = EBUSY;

void cannot_write(const std::string& path) {
    int code = errno;
    struct stat about{};
    const bool in_the_way = (code == ELOOP || code == EEXIST) && ::lstat(path.c_str(), &about) == 0;
    if (in_the_way && S_ISLNK(about.st_mode))
        fail(Exit::io, path + ": is a symbolic link, which is not written through; remove it");
    if (in_the_way && S_ISDIR(about.st_mode)) code = EISDIR;
    fail(Exit::io,
         path + ": cannot be written: " + reason_and_advice(code, "check the folder, its permissions and free space"));
}

int open_to_write(const std::string& path, int flags) {
    const int file = ::open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0) cannot_write(path);
    return file;
}

bool lock_file(int fd) {
    constexpr int tries = 10;  // between the two calls, the lock may be released
    for (int i = 0; i < tries; ++i) {
        struct flock whole{};
        whole.l_type = F_WRLCK;
        errno = 0;
        if (::fcntl(fd, F_OFD_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES)) return true;
        if (::fcntl(fd, F_OFD_GETLK, &whole) != 0 || whole.l_type == F_WRLCK) return false;
        errno = locked_by_a_reader;
        if (whole.l_type == F_RDLCK) return true;
    }
    return false;
}

std::string why_unlocked(int code) {
    if (code == locked_by_a_reader) return "another process has locked its lock file for reading";
    return std::string("this file system has no locks (") + std::strerror(code) + ")";
}

ssize_t read_all(int fd, void* to, size_t bytes, uint64_t offset) {
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = ::pread(fd, static_cast<char*>(to) + done, bytes - done, off_t(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += size_t(got);
    }
    return ssize_t(done);
}

bool write_all(int fd, const void* data, size_t size) {
    const char* next = static_cast<const char*>(data);
    for (const char* end = next + size; next < end;) {
        const ssize_t written = ::write(fd, next, static_cast<size_t>(end - next));
        if (written < 0 && errno != EINTR) return false;
        if (written > 0) next += written;
    }
    return true;
}

void make_folder_of(const std::string& path) {
    std::error_code shows_when_the_file_is_opened;
    const std::filesystem::path parent = std::filesystem::path(path).parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent, shows_when_the_file_is_opened);
}

void replace_file(const HeldPlace& place, const std::vector<unsigned char>& bytes, IfThere if_there) {
    const std::string partial = new_partial();
    write_and_put(place, partial, open_partial(place, partial), bytes, if_there);
}

void check_place(const HeldPlace& place) {
    const int folder = place.folder().fd();
    struct stat about{};
    const bool there = ::fstatat(folder, place.name().c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
    if (place.name().empty() || (there && S_ISDIR(about.st_mode))) errno = EISDIR;
    if (!there && errno != ENOENT) cannot_write(place.shown());
    if (there && S_ISDIR(about.st_mode)) cannot_write(place.shown());
    if (there && !S_ISREG(about.st_mode)) fail(Exit::io, place.shown() + ": is not a regular file; choose another");
    const std::string partial = new_partial();
    const Descriptor file = open_partial(place, partial);
    ::unlinkat(folder, partial.c_str(), 0);
}

void replace_run_file(const HeldPlace& place, const std::vector<unsigned char>& bytes) {
    write_and_put(place, place.partial(), place.folder().replace(place.partial()), bytes, IfThere::replace);
}

void publish_file(const HeldPlace& place) {
    const std::string partial = place.partial();
    {
        // Does not wait for a pipe that has taken the name.
        const Descriptor file(
            ::openat(place.folder().fd(), partial.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        struct stat about{};
        if (!file.valid() || ::fstat(file.fd(), &about) != 0) discard(place, partial);
        if (!S_ISREG(about.st_mode))
            fail(Exit::io, place.partial_shown() + ": is no regular file any more; see who writes in this folder");
        if (::fsync(file.fd()) != 0) discard(place, partial);
    }
    put_in_place(place, partial, IfThere::replace);
}

}  // namespace convoy
