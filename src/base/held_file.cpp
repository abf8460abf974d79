#include "base/held_file.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/durable.h"
#include "base/error.h"

namespace convoy {

void check_has_one_name(const HeldFolder& folder, const std::string& name) {
    struct stat about{};
    if (::fstatat(folder.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) return;  // its reader says why
    if (S_ISLNK(about.st_mode) || (S_ISREG(about.st_mode) && about.st_nlink > 1))
        fail(Exit::io, folder.shown(name) + ": is a link, or has several names; put a copy in its place, or remove it");
}

Descriptor open_lock(const HeldFolder& folder, const std::string& name) {
    constexpr mode_t of_writers = S_IRUSR | S_IWUSR | S_IWGRP | S_IWOTH, of_readers = S_IRGRP | S_IROTH;
    const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    Descriptor file(::openat(folder.fd(), name.c_str(), flags, of_writers));
    struct stat about{};
    if (!file.valid() || ::fstat(file.fd(), &about) != 0) cannot_write(folder.shown(name));
    const bool own = S_ISREG(about.st_mode) && about.st_uid == ::geteuid() && about.st_nlink == 1;
    // Earlier versions made the file readable. If fchmod() fails, it stays readable. With several
    // hard links, it may also be a file of the user that others must be able to read.
    if (own && (about.st_mode & of_readers) != 0) (void)!::fchmod(file.fd(), about.st_mode & ALLPERMS & ~of_readers);
    return file;
}

void replace_in(const HeldFolder& folder, const std::string& name, const std::string& text) {
    const std::string partial = name + ".partial";
    const auto check = [&](bool done) {
        if (done) return;
        const int code = errno;
        ::unlinkat(folder.fd(), partial.c_str(), 0);
        errno = code;
        cannot_write(folder.shown(name));
    };
    const auto check_error = [&](const std::error_code& error) {
        errno = error.value();
        check(!error);
    };
    {
        const Descriptor file = folder.replace(partial);
        check(write_all(file.fd(), text.data(), text.size()) && ::fsync(file.fd()) == 0);
    }
    check_error(folder.rename(partial, name));
    check_error(folder.sync());
}

std::string random_name(size_t count) {
    constexpr char characters[] = "abcdefghijklmnopqrstuvwxyz012345";  // 32, so that all are equally likely
    std::vector<unsigned char> bytes(count);
    if (::getrandom(bytes.data(), count, 0) != ssize_t(count))
        fail(Exit::io, std::string("the system gives no random numbers (") + std::strerror(errno) + "); restart it");
    std::string name;
    for (const unsigned char byte : bytes) name += characters[byte % 32];
    return name;
}

}  // namespace convoy
