#include "base/held_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <filesystem>
#include <utility>

#include "base/durable.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/folder.h"

namespace convoy {
namespace {

constexpr int as_folder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

std::error_code reason_if(bool failed) {
    return failed ? std::error_code(errno, std::generic_category()) : std::error_code();
}

bool is_same(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

/// Returns the flags with which fstatat(2) examines what open(2) would open.
int looks_at(HeldFolder::IfLink if_link) { return if_link == HeldFolder::IfLink::refuse ? AT_SYMLINK_NOFOLLOW : 0; }

int open_plain(int above, const std::string& name, HeldFolder::IfLink if_link) {
    return ::openat(above, name.c_str(), as_folder | (if_link == HeldFolder::IfLink::refuse ? O_NOFOLLOW : 0));
}

/// Opens a folder, or the target of a link that this user or root made. Follows exactly the link
/// whose owner was checked. Throws Exit::io for a link of another user.
int open_own(int above, const std::string& name, const std::string& shown) {
    const Descriptor link(::openat(above, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat about{};
    if (!link.valid() || ::fstat(link.fd(), &about) != 0) return -1;
    if (!S_ISLNK(about.st_mode)) return open_plain(above, name, HeldFolder::IfLink::refuse);
    std::string target(PATH_MAX, '\0');
    const ssize_t length = ::readlinkat(link.fd(), "", target.data(), target.size());
    if (length < 0) return -1;
    target.resize(size_t(length));
    if (about.st_uid != ::geteuid() && about.st_uid != 0)
        fail(Exit::io, shown + ": is a link that another user made; give " + target + " itself, if that is meant");
    const std::filesystem::path parent = std::filesystem::path(name).parent_path();
    return open_plain(above, parent / target, HeldFolder::IfLink::follow);
}

/// Throws Exit::io for a folder that could not be opened. `about`: its status, if that is `known`.
[[noreturn]] void cannot_open(const std::string& path, int code, bool known, const struct stat& about) {
    if (known && S_ISLNK(about.st_mode))
        fail(Exit::io, path + ": is a symbolic link, which is not followed; remove it");
    if (known && !S_ISDIR(about.st_mode)) code = ENOTDIR;
    fail(Exit::io, path + ": cannot be opened: " + reason_and_advice(code, "check the path and its permissions", path));
}

/// Removes the entry `name` of the open folder `above`. Follows no link.
std::error_code remove_below(int above, const std::string& name) {
    if (::unlinkat(above, name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) return reason_if(true);  // POSIX has EPERM for folders
    const std::error_code reason = reason_if(true);
    const Descriptor folder(::openat(above, name.c_str(), as_folder | O_NOFOLLOW));
    if (!folder.valid()) return errno == ENOTDIR || errno == ELOOP ? reason : reason_if(true);
    std::error_code error;
    for (const std::string& inner : names_in(folder.fd(), error))
        if (const std::error_code kept = remove_below(folder.fd(), inner); kept) return kept;
    if (error) return error;
    return reason_if(::unlinkat(above, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT);
}

}  // namespace

std::string without_slashes(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return path;
}

HeldFolder::HeldFolder(int above, const std::string& name, std::string shown, IfLink if_link)
    : shown_(std::move(shown)),
      if_link_(if_link),
      folder_(std::make_shared<const Descriptor>(if_link == IfLink::follow_own ? open_own(above, name, shown_)
                                                                               : open_plain(above, name, if_link))) {
    if (folder_->valid()) return;
    const int code = errno;
    struct stat about{};
    const bool known = ::fstatat(above, name.c_str(), &about, looks_at(if_link)) == 0;
    cannot_open(shown_, code, known, about);
}

HeldFolder::HeldFolder(const std::string& path, IfLink if_link)
    : HeldFolder(AT_FDCWD, without_slashes(path), without_slashes(path), if_link) {}

HeldFolder::HeldFolder(const HeldFolder& above, const std::string& name, IfLink if_link)
    : HeldFolder(above.fd(), name, above.shown(name), if_link) {}

std::string HeldFolder::path(const std::string& name) const {
    const std::string held = "/proc/self/fd/" + std::to_string(fd());
    struct stat opened{}, behind{};
    // False without /proc, and also if this process may not read its entry in /proc.
    if (::fstat(fd(), &opened) == 0 && ::stat(held.c_str(), &behind) == 0 && is_same(opened, behind))
        return held + "/" + name;
    if (!is_still_at_its_path())
        fail(Exit::io, shown_ +
                           ": was removed, or another folder is in its place, and /proc, which leads to it, "
                           "cannot be read; mount /proc");
    return shown(name);
}

bool HeldFolder::is_still_at_its_path() const {
    struct stat opened{}, now{};
    return ::fstat(fd(), &opened) == 0 && ::fstatat(AT_FDCWD, shown_.c_str(), &now, looks_at(if_link_)) == 0 &&
           is_same(opened, now);
}

bool HeldFolder::was_removed() const {
    struct stat opened{};
    return ::fstat(fd(), &opened) != 0 || opened.st_nlink == 0;  // fstat fails for removed folders on file servers
}

std::string HeldFolder::real_path() const {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd()), error);
    return error ? std::filesystem::weakly_canonical(shown_, error).string() : real.string();
}

std::string HeldFolder::with_shown(std::string message) const {
    const std::string held = "/proc/self/fd/" + std::to_string(fd()) + "/";
    for (size_t at = 0; (at = message.find(held, at)) != std::string::npos; at += shown_.size() + 1)
        message.replace(at, held.size(), shown_ + "/");
    return message;
}

std::vector<std::string> HeldFolder::names(std::error_code& error) const { return names_in(fd(), error); }

Descriptor HeldFolder::open_new(const std::string& name) const { return open_to_write(name, O_RDWR | O_EXCL); }

Descriptor HeldFolder::replace(const std::string& name) const {
    struct stat about{};
    const bool there = ::fstatat(fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISLNK(about.st_mode) && !S_ISDIR(about.st_mode)) ::unlinkat(fd(), name.c_str(), 0);
    return open_new(name);
}

Descriptor HeldFolder::open_to_write(const std::string& name, int flags) const {
    Descriptor file(::openat(fd(), name.c_str(), flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.valid()) cannot_write(shown(name));
    return file;
}

Descriptor HeldFolder::open_existing(const std::string& name, int flags) const {
    Descriptor file(::openat(fd(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC));
    if (!file.valid()) cannot_read(shown(name), errno, "check the path and its permissions");
    return file;
}

bool HeldFolder::has(const std::string& name) const {
    struct stat about{};
    return ::fstatat(fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
}

void HeldFolder::make_folder(const std::string& name) const {
    if (::mkdirat(fd(), name.c_str(), 0777) == 0) return;
    struct stat about{};
    const int code = errno;
    const bool there = ::fstatat(fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && S_ISDIR(about.st_mode)) return;
    errno = code;
    cannot_write(shown(name));
}

std::error_code HeldFolder::rename(const std::string& from, const std::string& to) const {
    return reason_if(::renameat(fd(), from.c_str(), fd(), to.c_str()) != 0);
}

std::error_code HeldFolder::remove(const std::string& name) const {
    if (::unlinkat(fd(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) return reason_if(true);
    return reason_if(::unlinkat(fd(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT);
}

std::error_code HeldFolder::remove_tree(const std::string& name) const { return remove_below(fd(), name); }

std::error_code HeldFolder::sync() const { return reason_if(::fsync(fd()) != 0); }

}  // namespace convoy
