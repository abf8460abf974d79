#include "cli/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/durable.h"
#include "base/error.h"
#include "base/held_folder.h"
#include "run/run_leftovers.h"

namespace convoy {

namespace {

std::string parent_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace

std::string log_path(const std::string& folder, int rank) {
    return formatted("%s/rank-%04d.log", folder.c_str(), rank);
}

LogFile::LogFile(const std::string& path) : path_(path) {
    make_folder_of(path);
    const HeldFolder folder(parent_of(path), HeldFolder::IfLink::follow_own);
    // O_NONBLOCK: opening a pipe without a reader must not wait
    file_ = folder.open_to_write(path.substr(path.rfind('/') + 1), O_WRONLY | O_APPEND | O_NONBLOCK);
    struct stat status{};
    // A received folder may have a hard link to another file of the user.
    const bool plain = ::fstat(file_.fd(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
    const bool mine = lock_file(file_.fd());
    if (!plain)
        fail(Exit::io, path + ": is not a plain file, or has several names; remove it, or choose another --log-dir");
    if (!mine) fail(Exit::usage, path + ": another run is writing there; choose another --log-dir");
}

std::string note_on_log_link(const std::string& folder) {
    std::error_code unknown;
    if (!std::filesystem::is_symlink(without_slashes(folder), unknown)) return "";
    return folder + ": is a link: logs are written in " + std::filesystem::weakly_canonical(folder, unknown).string();
}

std::string warning_of_log_folder(const std::string& folder) {
    return warning_of_owner(HeldFolder(folder, HeldFolder::IfLink::follow_own), "--log-dir");
}

bool LogFile::add(const std::string& line) {
    if (!file_.valid()) return false;
    const std::string text = line + "\n";
    if (write_all(file_.fd(), text.data(), text.size())) return true;
    file_ = Descriptor(-1);
    return false;
}

}  // namespace convoy
