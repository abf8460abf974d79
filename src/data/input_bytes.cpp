#include "data/input_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/durable.h"
#include "base/file_error.h"
#include "base/hole.h"

namespace convoy {
InputBytes::InputBytes(const FilePlace& place, const std::string& advice)
    : path_(place.shown), fd_(::open(place.opened.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status{};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
        const int code = errno;
        const bool opened = fd_ >= 0, looked_at = opened && status.st_mode != 0;
        if (opened) ::close(fd_);
        if (!looked_at) cannot_read(path_, code, advice);
        fail(Exit::bad_input, path_ + ": is not a regular file; " + advice);
    }
    size_ = status.st_size;
    try {
        check_is_no_hole(fd_, size_, path_);
    } catch (const Error&) {
        ::close(fd_);
        throw;
    }
}

InputBytes::~InputBytes() { ::close(fd_); }

void InputBytes::read(int64_t offset, int64_t bytes, void* to) const {
    const ssize_t got = read_all(fd_, to, size_t(bytes), uint64_t(offset));
    if (got == bytes) return;
    const int code = errno;
    const auto place = [&](int64_t at) { return path_ + ": at byte " + std::to_string(at); };
    if (got < 0) cannot_read(place(offset), code, "check the file system");
    fail(Exit::bad_input, place(offset + got) + ": ends too early; it is truncated, get it again");
}

}  // namespace convoy
