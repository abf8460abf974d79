#include "cli/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/error.h"

namespace convoy {

std::string log_path(const std::string& folder, int rank) {
    return formatted("%s/rank-%04d.log", folder.c_str(), rank);
}

LogFile::LogFile(const std::string& path) : path_(path) {
    make_folder_of(path);
    file_ = open_to_write(path, O_WRONLY | O_APPEND | O_NONBLOCK);  // a pipe without reader does not wait
    struct stat status{};
    const bool plain = ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
    const bool mine = lock_file(file_);
    if (plain && mine) return;
    ::close(file_);
    if (!plain) fail(Exit::io, path + ": is not a plain file; remove it, or choose another --log-dir");
    fail(Exit::usage, path + ": another run is writing there; choose another --log-dir");
}

LogFile::~LogFile() {
    if (file_ >= 0) ::close(file_);
}

bool LogFile::add(const std::string& line) {
    if (file_ < 0) return false;
    const std::string text = line + "\n";
    if (write_all(file_, text.data(), text.size())) return true;
    ::close(file_);
    file_ = -1;
    return false;
}

}  // namespace convoy
