#include "comm/segments.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "comm/launcher.h"

namespace convoy {

std::vector<std::string> mapped_segments() {
    std::set<std::string> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        const size_t at = line.find("/dev/shm/");
        if (at == std::string::npos || line.ends_with(" (deleted)")) continue;
        const std::string path = line.substr(at), name = path.substr(path.rfind('/') + 1);
        if (name.starts_with("vader_segment.") || name.starts_with("sm_segment.")) found.insert(path);
    }
    return {found.begin(), found.end()};
}

void remove_names(const std::vector<std::string>& segments) {
    for (const std::string& path : segments) ::unlink(path.c_str());
}

void restore_names(const std::vector<std::string>& segments) {
    for (const std::string& path : segments)
        if (const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600); fd >= 0) ::close(fd);
}

namespace {

constexpr const char *place = "/dev/shm/", *prefix = "convoy-", *random = "XXXXXX";

/// Opens a folder and locks it. The result is invalid if another process holds the lock, if another
/// user owns it, or if `path` now leads elsewhere.
Descriptor locked(const std::string& path) {
    Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat held{}, named{};
    const bool mine = folder.valid() && ::fstat(folder.fd(), &held) == 0 && held.st_uid == ::geteuid() &&
                      ::flock(folder.fd(), LOCK_EX | LOCK_NB) == 0 && ::lstat(path.c_str(), &named) == 0 &&
                      held.st_dev == named.st_dev && held.st_ino == named.st_ino;
    return mine ? std::move(folder) : Descriptor(-1);
}

/// Removes empty folders of runs of this user that were killed.
void remove_leftovers() {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(place, error)) {
        const std::string name = entry.path().filename();
        if (!name.starts_with(prefix) || name.size() != std::strlen(prefix) + std::strlen(random)) continue;
        if (const Descriptor folder = locked(entry.path()); folder.valid()) ::rmdir(entry.path().c_str());
    }
}

[[noreturn]] void refuse_place(const std::string& reason) {
    fail(Exit::io, "/dev/shm takes no folder of this rank (" + reason +
                       "): make room there (df -i /dev/shm), or use another node");
}

}  // namespace

SegmentFolder::SegmentFolder() {
    constexpr const char* settings[] = {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory",
                                        "OMPI_MCA_osc_sm_backing_directory"};
    if (!is_launched()) return;  // a single process shares nothing
    for (const char* setting : settings)
        if (std::getenv(setting)) return;
    remove_leftovers();
    // Retries, because another process may remove a new folder as a leftover before it is locked.
    for (int tries = 0; tries < 10 && !folder_.valid(); ++tries) {
        path_ = std::string(place) + prefix + random;
        if (::mkdtemp(path_.data())) {
            folder_ = locked(path_);
            continue;
        }
        const int error = errno;
        path_.clear();
        if (::access(place, W_OK) != 0) return;  // OpenMPI then uses its own folder
        refuse_place(std::strerror(error));
    }
    if (!folder_.valid()) refuse_place("it is removed at once");
    for (const char* setting : settings) setenv(setting, path_.c_str(), 1);
}

SegmentFolder::~SegmentFolder() { remove(); }

void SegmentFolder::remove() {
    if (!path_.empty()) ::rmdir(path_.c_str());
}

}  // namespace convoy
