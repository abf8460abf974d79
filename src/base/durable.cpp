#include "base/durable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/descriptor.h"
#include "base/file_error.h"

namespace convoy {
namespace {

[[noreturn]] void discard(const HeldPlace& place) {
    const int reason = errno;
    ::unlinkat(place.folder().fd(), place.partial().c_str(), 0);  // gives the space back
    errno = reason;
    cannot_write(place.shown());
}

}  // namespace

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

int create_to_write(const std::string& path) {
    struct stat about{};
    const bool there = ::lstat(path.c_str(), &about) == 0;
    if (there && !S_ISLNK(about.st_mode) && !S_ISDIR(about.st_mode)) ::unlink(path.c_str());
    return open_to_write(path, O_WRONLY | O_EXCL);
}

bool lock_file(int fd) {
    struct flock whole{};
    whole.l_type = F_WRLCK;
    errno = 0;
    return ::fcntl(fd, F_OFD_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
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

void replace_file(const HeldPlace& place, const std::vector<unsigned char>& bytes) {
    {
        const Descriptor file = place.folder().replace(place.partial());
        if (!write_all(file.fd(), bytes.data(), bytes.size())) discard(place);
    }
    publish_file(place);
}

void publish_file(const HeldPlace& place) {
    const int folder = place.folder().fd();
    const std::string partial = place.partial();
    {
        const Descriptor file(::openat(folder, partial.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        if (!file.valid() || ::fsync(file.fd()) != 0) discard(place);
    }
    if (::renameat(folder, partial.c_str(), folder, place.name().c_str()) != 0) discard(place);
    if (::fsync(folder) != 0) cannot_write(place.shown());
}

}  // namespace convoy
