// Reads a file at any offset. For example, every rank reads members from the same archive.
#pragma once
#include <cstdint>
#include <string>

#include "base/file_place.h"

namespace convoy {

class InputBytes {
public:
    /// Throws Exit::bad_input, with `advice` at the end, if there is no such regular file. Also
    /// throws it if the file is large, and less than a tenth of it is stored.
    explicit InputBytes(const FilePlace&, const std::string& advice = "check the path");
    ~InputBytes();
    InputBytes(const InputBytes&) = delete;
    InputBytes& operator=(const InputBytes&) = delete;

    const std::string& path() const { return path_; }  ///< path for messages
    int64_t size() const { return size_; }
    int descriptor() const { return fd_; }
    /// Reads bytes [offset, offset + bytes) of the file. Throws Exit::bad_input if it has fewer, or
    /// cannot be read.
    void read(int64_t offset, int64_t bytes, void* to) const;

private:
    std::string path_;
    int fd_;
    int64_t size_ = 0;
};

}  // namespace convoy
