// An owner of a file descriptor.
#pragma once
#include <unistd.h>

#include <utility>

namespace convoy {

/// Owns a file descriptor and closes it when destroyed. A negative descriptor means none.
class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }

    int fd() const { return fd_; }
    /// Gives up ownership. The caller must close the descriptor.
    int release() { return std::exchange(fd_, -1); }
    bool valid() const { return fd_ >= 0; }

private:
    int fd_;
};

}  // namespace convoy
