#include "comm/stall_reports.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/durable.h"

namespace convoy {
namespace {

constexpr size_t longest = 4096;  // bytes per report

std::string name_of(int rank) { return "rank-" + std::to_string(rank) + ".txt"; }

bool is_plain(int file) {
    struct stat status{};
    return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

StallReports::StallReports(const std::string& folder) {
    std::error_code shows_when_it_is_opened;
    std::filesystem::create_directories(folder, shows_when_it_is_opened);
    try {
        folder_.emplace(folder);
    } catch (const Error&) {  // there can be no reports
    }
}

StallReports::StallReports(const HeldFolder& above, const std::string& name) {
    try {
        above.make_folder(name);
        folder_.emplace(above, name);
    } catch (const Error&) {  // there can be no reports
    }
}

void StallReports::write(int rank, const std::string& line) const {
    if (!usable()) return;
    ::unlinkat(folder_->fd(), name_of(rank).c_str(), 0);
    const int file = ::openat(folder_->fd(), name_of(rank).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return;
    const std::string text = line + "\n";
    write_all(file, text.data(), text.size());
    ::close(file);
}

std::string StallReports::read(int rank) const {
    if (!usable()) return "";
    const int file = ::openat(folder_->fd(), name_of(rank).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return "";
    std::string text(longest, '\0');
    const ssize_t size = is_plain(file) ? ::read(file, text.data(), text.size()) : 0;
    ::close(file);
    return text.substr(0, std::min(text.find('\n'), size_t(std::max<ssize_t>(size, 0))));
}

}  // namespace convoy
