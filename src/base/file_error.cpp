#include "base/file_error.h"

#include <cerrno>
#include <cstring>

namespace convoy {
namespace {

constexpr int no_nfs_operation = 524;  // the kernel's ENOTSUPP, which no header of the C library has

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

}  // namespace

std::string reason_and_advice(int code, const std::string& otherwise) {
    const std::string own = own_advice(code);
    return reason(code) + "; " + (own.empty() ? otherwise : own);
}

void cannot_read(const std::string& path, int code, const std::string& otherwise) {
    throw Inaccessible(path + ": cannot be read: " + reason_and_advice(code, otherwise));
}

}  // namespace convoy
