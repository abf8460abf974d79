#include "data/open_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/descriptor.h"
#include "base/durable.h"
#include "base/file_error.h"

namespace convoy {
namespace {

const std::string shorter = "is shorter than it was: it was truncated or replaced; put it back, and start again";

std::string failure(int code) {
    const std::string otherwise = code == ENOENT ? "was the data set moved or removed?" : "check the file system";
    return "cannot be read: " + reason_and_advice(code, otherwise);
}

/// Returns the problem with an opened file; empty if there is none.
std::string look_at(int id, uint64_t bytes) {
    struct stat about{};
    if (::fstat(id, &about) != 0) return failure(errno);
    if (!S_ISREG(about.st_mode)) return "is not a regular file; put the data set back, and start again";
    if (uint64_t(about.st_size) == bytes) return "";
    return "has " + std::to_string(about.st_size) + " bytes, and had " + std::to_string(bytes) +
           ": it was truncated or replaced; put it back, and start again";
}

/// Returns the problem, or "".
std::string read_exactly(int id, uint64_t offset, size_t bytes, uint8_t* to) {
    const ssize_t got = read_all(id, to, bytes, offset);
    if (got < 0) return failure(errno);
    return size_t(got) == bytes ? "" : shorter;
}

}  // namespace

std::string OpenFiles::read(size_t i, uint64_t offset, size_t bytes, uint8_t* to) {
    Shared file = find(i);
    if (!file) {
        // Opens without the lock, because a file system may be slow. O_NONBLOCK, because opening a
        // pipe that took the file's place would block until it has a writer.
        const int id = ::open(files_[i].path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (id < 0) return failure(errno);
        file = std::make_shared<const Descriptor>(id);
        if (const std::string wrong = look_at(id, files_[i].bytes); !wrong.empty()) return wrong;
        file = keep(i, std::move(file));
    }
    return read_exactly(file->fd(), offset, bytes, to);
}

OpenFiles::Shared OpenFiles::find(size_t i) const {
    const std::lock_guard lock(mutex_);
    return open_[i];
}

/// Stores the descriptor and returns it. If another thread stored one first, returns that one.
OpenFiles::Shared OpenFiles::keep(size_t i, Shared file) {
    const std::lock_guard lock(mutex_);
    if (open_[i]) return open_[i];
    if (order_.size() == most_) {
        open_[order_.front()].reset();
        order_.pop_front();
    }
    order_.push_back(i);
    return open_[i] = std::move(file);
}

}  // namespace convoy
