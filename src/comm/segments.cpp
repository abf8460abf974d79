#include "comm/segments.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

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

SegmentFolder::SegmentFolder() {
    constexpr const char* settings[] = {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory",
                                        "OMPI_MCA_osc_sm_backing_directory"};
    if (!is_launched()) return;  // a single process shares nothing
    for (const char* setting : settings)
        if (std::getenv(setting)) return;
    std::string path = "/dev/shm/convoy-XXXXXX";
    if (!::mkdtemp(path.data())) return;
    path_ = path, is_there_ = true;
    for (const char* setting : settings) setenv(setting, path.c_str(), 1);
}

SegmentFolder::~SegmentFolder() { close(); }

bool SegmentFolder::open() {
    if (!path_.empty() && !is_there_) is_there_ = ::mkdir(path_.c_str(), 0700) == 0;
    return path_.empty() || is_there_;
}

void SegmentFolder::close() {
    if (is_there_ && ::rmdir(path_.c_str()) == 0) is_there_ = false;
}

}  // namespace convoy
