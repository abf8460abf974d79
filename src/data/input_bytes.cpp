#include "data/input_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace convoy {

InputBytes::InputBytes(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status{};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
        const std::string reason = fd_ < 0 ? std::strerror(errno) : "is not a regular file";
        if (fd_ >= 0) ::close(fd_);
        fail(Exit::bad_input, path + ": " + reason + "; check the path");
    }
    size_ = status.st_size;
}

InputBytes::~InputBytes() { ::close(fd_); }

void InputBytes::read(int64_t offset, int64_t bytes, void* to) const {
    for (int64_t done = 0; done < bytes;) {
        const ssize_t got = ::pread(fd_, static_cast<char*>(to) + done, size_t(bytes - done), offset + done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            fail(Exit::bad_input, path_ + ": at byte " + std::to_string(offset + done) + ": " +
                                      (got < 0 ? std::strerror(errno) : "ends too early; it is truncated"));
        done += got;
    }
}

}  // namespace convoy
