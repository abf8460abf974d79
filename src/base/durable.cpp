#include "base/durable.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/file_error.h"

namespace convoy {
namespace {

/// The descriptor's owner, for a file or folder that is open only for a moment.
struct Descriptor {
    int fd;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

[[noreturn]] void discard(const std::string& partial, const std::string& path) {
    const int reason = errno;
    ::unlink(partial.c_str());  // gives the space back
    errno = reason;
    cannot_write(path);
}

}  // namespace

void cannot_write(const std::string& path) {
    const int code = errno;
    std::error_code unknown;
    if (code == ELOOP && std::filesystem::is_symlink(std::filesystem::symlink_status(path, unknown)))
        fail(Exit::io, path + ": is a symbolic link, which is not written through; remove it");
    errno = code;
    fail(Exit::io,
         path + ": cannot be written: " + reason_and_advice(errno, "check the folder, its permissions and free space"));
}

int open_to_write(const std::string& path, int flags) {
    const int file = ::open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0) cannot_write(path);
    return file;
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

void replace_file(const std::string& path, const std::vector<unsigned char>& bytes) {
    make_folder_of(path);
    const std::string partial = path + ".partial";
    {
        const Descriptor file{open_to_write(partial, O_WRONLY | O_TRUNC)};
        if (!write_all(file.fd, bytes.data(), bytes.size())) discard(partial, path);
    }
    publish_file(partial, path);
}

void publish_file(const std::string& partial, const std::string& path) {
    {
        const Descriptor file{::open(partial.c_str(), O_RDONLY | O_CLOEXEC)};
        if (file.fd < 0 || ::fsync(file.fd) != 0) discard(partial, path);
    }
    if (std::rename(partial.c_str(), path.c_str()) != 0) discard(partial, path);
    const size_t slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const Descriptor folder{::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (folder.fd < 0 || ::fsync(folder.fd) != 0) cannot_write(path);
}

}  // namespace convoy
