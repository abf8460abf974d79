#include "base/file_error.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace convoy {
namespace {

constexpr int no_nfs_operation = 524;  // the kernel's ENOTSUPP; no header of the C library defines it

std::string reason(int code) {
    return code == no_nfs_operation ? "Operation not supported (error 524)" : std::strerror(code);
}

/// Returns the advice for this errno; empty if it has none.
std::string own_advice(int code) {
    switch (code) {
        case EAGAIN:
        case EBUSY:
        case ETXTBSY: return "another program has locked it: close it there, and start again";
        case ENOLCK:
        case EOPNOTSUPP:
        case ENOSYS:
        case no_nfs_operation: return "this file system does not support it: choose a folder on another one";
        case EROFS: return "this file system is mounted read-only: choose a folder on another one";
        case EMFILE: return "this process may not open more files: raise the limit (ulimit -n), and start again";
        case ENFILE: return "all processes of this host have too many files open: end some, and start again";
        case EACCES:
        case EPERM: return "this user may not open it: change its permissions or those of its folders, and start again";
        case ESTALE:
            return "the file server has replaced or moved it: start again, and mount it again if that does not help";
        case EIO: return "the disk or the file server failed: see the system's log (dmesg), and try again";
        case ENOTCONN:
        case ETIMEDOUT:
        case EHOSTDOWN:
        case EHOSTUNREACH:
        case ECONNREFUSED:
        case ECONNRESET: return "the file server does not answer: mount it again, and start again";
        default: return "";
    }
}

/// Returns "PATH belongs to USER, with mode 0750" for the folder on the way to `path` that this
/// user may not enter. If there is none, PATH is `path`. Empty if stat() fails on the way.
std::string whose(const std::string& path) {
    std::filesystem::path place;
    for (const std::filesystem::path& part : std::filesystem::path(path)) {
        place /= part;
        struct stat about{};
        if (::stat(place.c_str(), &about) != 0) return "";
        const int needed = S_ISDIR(about.st_mode) ? X_OK : R_OK;
        if (place != path && ::faccessat(AT_FDCWD, place.c_str(), needed, AT_EACCESS) == 0) continue;
        return place.string() + " belongs to " + name_of_user(about.st_uid) + ", with mode " +
               formatted("%04o", unsigned(about.st_mode & 07777));
    }
    return "";
}

}  // namespace

Inaccessible::~Inaccessible() = default;

std::string name_of_user(uid_t user) {
    const passwd* known = ::getpwuid(user);
    return known ? known->pw_name : "user " + std::to_string(user);
}

std::string reason_and_advice(int code, const std::string& otherwise, const std::string& path) {
    const std::string own = own_advice(code);
    const std::string owner = code == EACCES || code == EPERM ? whose(path) : "";
    return reason(code) + (owner.empty() ? "; " : ": " + owner + ", and this is " + name_of_user(::geteuid()) + "; ") +
           (own.empty() ? otherwise : own);
}

void cannot_read(const std::string& path, int code, const std::string& otherwise) {
    throw Inaccessible(path + ": cannot be read: " + reason_and_advice(code, otherwise, path));
}

}  // namespace convoy
