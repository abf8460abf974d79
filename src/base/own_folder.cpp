#include "base/own_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file_error.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr mode_t others_write = S_IWGRP | S_IWOTH;

[[noreturn]] void cannot_make(const std::string& path, const std::string& advice) {
    fail(Exit::io, path + ": cannot be created (" + std::strerror(errno) + "); " + advice);
}

void make_parents(const std::string& path) {
    std::error_code shows_when_the_folder_is_made;
    const fs::path parent = fs::path(path).parent_path();
    if (!parent.empty()) fs::create_directories(parent, shows_when_the_folder_is_made);
}

/// Whether the file system shows a file made just now with this owner too, and as open to others.
/// Network file systems may show one owner for several users; FAT and CIFS keep no modes.
bool is_as_if_made_now(const std::string& path, const struct stat& folder) {
    std::string name = path + "-XXXXXX";
    const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
    if (!file.valid()) return false;
    struct stat made{};
    const bool known = ::fstat(file.fd(), &made) == 0;
    ::unlink(name.c_str());
    return known && made.st_uid == folder.st_uid && (folder.st_mode & others_write & ~made.st_mode) == 0;
}

/// Throws Exit::usage unless a folder is this user's alone.
void check_owner(const std::string& path, const struct stat& about, const std::string& advice) {
    if (!S_ISDIR(about.st_mode))
        fail(Exit::usage, path + ": is " + (S_ISLNK(about.st_mode) ? "a symbolic link" : "no folder") + "; " + advice);
    const bool own = about.st_uid == ::geteuid();
    if ((own && (about.st_mode & others_write) == 0) || is_as_if_made_now(path, about)) return;
    fail(Exit::usage, path + (own ? ": others may write to it; " : ": belongs to another user; ") + advice);
}

}  // namespace

OwnFolder OwnFolder::existing(const std::string& path, const std::string& advice) {
    Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const int code = errno;
    struct stat about{};
    const bool known = folder.valid() ? ::fstat(folder.fd(), &about) == 0 : ::lstat(path.c_str(), &about) == 0;
    if (known) check_owner(path, about, advice);
    if (!known || !folder.valid()) fail(Exit::io, path + ": cannot be opened: " + reason_and_advice(code, advice));
    return {path, advice, std::move(folder)};
}

OwnFolder OwnFolder::make_or_take(const std::string& path, const std::string& advice) {
    make_parents(path);
    if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) cannot_make(path, advice);
    return existing(path, advice);
}

OwnFolder OwnFolder::unique(const std::string& prefix, const std::string& advice) {
    make_parents(prefix);
    std::string path = prefix + "XXXXXX";
    if (!::mkdtemp(path.data())) cannot_make(path, advice);
    return existing(path, advice);
}

bool OwnFolder::is_at_its_path() const {
    struct stat opened{}, now{};
    return ::fstat(folder_.fd(), &opened) == 0 && ::lstat(path_.c_str(), &now) == 0 && opened.st_dev == now.st_dev &&
           opened.st_ino == now.st_ino;
}

void OwnFolder::check() const {
    if (!is_at_its_path()) fail(Exit::io, path_ + ": was removed, or another folder is in its place; " + advice_);
}

std::string OwnFolder::subfolder(const std::string& name) const {
    check();
    const std::string path = path_ + "/" + name;
    if (::mkdir(path.c_str(), S_IRWXU | S_IRWXG | S_IRWXO) == 0) return path;
    if (errno != EEXIST) cannot_make(path, advice_);
    struct stat own{}, about{};
    const bool known = ::fstat(folder_.fd(), &own) == 0 && ::lstat(path.c_str(), &about) == 0;
    if (!known || !S_ISDIR(about.st_mode) || about.st_uid != own.st_uid)
        fail(Exit::usage, path + ": is no folder of the same user; " + advice_);
    return path;
}

std::error_code OwnFolder::remove() const {
    std::error_code error;
    if (!is_at_its_path()) return std::make_error_code(std::errc::no_such_file_or_directory);
    fs::remove_all(path_, error);
    return error;
}

}  // namespace convoy
