// Files that are read at any place by any number of threads. Each is opened when it is first read,
// and at most so many are kept open.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace convoy {

class OpenFiles {
public:
    struct File {
        std::string path;
        uint64_t bytes;  ///< its size; a file of another size was replaced, and is not read
    };
    /// Keeps `most` open; a thread that reads then may have one more.
    OpenFiles(std::vector<File> files, size_t most) : files_(std::move(files)), most_(most), open_(files_.size()) {}

    /// Reads `bytes` from `offset` of file `i` to `to`. What is wrong, and what to do, without the
    /// file's name; empty if nothing. May be called by several threads.
    std::string read(size_t i, uint64_t offset, size_t bytes, uint8_t* to);

private:
    class Descriptor;
    using Shared = std::shared_ptr<const Descriptor>;  // closed by the last of its readers
    Shared find(size_t i) const;
    Shared keep(size_t i, Shared);

    const std::vector<File> files_;
    const size_t most_;
    mutable std::mutex mutex_;
    std::vector<Shared> open_;  // [files]; of those that are not open, none
    std::deque<size_t> order_;  // of open ones, in the order in which they were opened
};

}  // namespace convoy
