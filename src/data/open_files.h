// Files that any number of threads read at any offset. A file is opened when it is first read, and
// a limited number is kept open.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace convoy {

class Descriptor;

class OpenFiles {
public:
    struct File {
        std::string path;
        uint64_t bytes;  ///< expected size; a file of another size is not read, because it was replaced
    };
    /// Keeps up to `most` files open, and one more per reading thread.
    OpenFiles(std::vector<File> files, size_t most) : files_(std::move(files)), most_(most), open_(files_.size()) {}

    /// Reads `bytes` bytes from `offset` of file `i` to `to`. Returns "" or the problem and advice,
    /// without the file's name. Several threads may call it at once.
    std::string read(size_t i, uint64_t offset, size_t bytes, uint8_t* to);

private:
    using Shared = std::shared_ptr<const Descriptor>;  // the last owner closes it
    Shared find(size_t i) const;
    Shared keep(size_t i, Shared);

    const std::vector<File> files_;
    const size_t most_;
    mutable std::mutex mutex_;
    std::vector<Shared> open_;  // [files]; null: not open
    std::deque<size_t> order_;  // indices of open files, in the order in which they were opened
};

}  // namespace convoy
