#include "base/own_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/durable.h"
#include "base/error.h"
#include "base/held_file.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr mode_t others_write = S_IWGRP | S_IWOTH;

[[noreturn]] void cannot_make(const std::string& path, const std::string& advice) {
    fail(Exit::io, path + ": cannot be created (" + std::strerror(errno) + "); " + advice);
}

std::string name_of(const std::string& path) { return fs::path(path).filename(); }

/// Opens the parent folder of `path`. It may be a link, because the user gave that path.
HeldFolder folder_above(const std::string& path, const char* purpose) try {
    const fs::path parent = fs::path(path).parent_path();
    return HeldFolder(parent.empty() ? "." : parent.string(), HeldFolder::IfLink::follow);
} catch (const Error& error) {
    fail(Exit::io, path + ": cannot be " + purpose + ": " + error.what());
}

/// Makes a trial file beside the folder, with a mode that lets only its owner write, and compares
/// how the file system shows both. Returns true if they have the same owner, and the trial file has
/// every permission to write that the folder has. Owner and mode then do not tell who made the
/// folder: network file systems may show one owner for several users; FAT and CIFS keep no modes.
bool is_as_if_made_now(const HeldFolder& above, const std::string& name, const struct stat& folder) {
    const std::string trial = name + "-" + random_name(6);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const Descriptor file(::openat(above.fd(), trial.c_str(), flags, S_IRUSR | S_IWUSR));
    if (!file.valid()) return false;
    struct stat made{};
    const bool known = ::fstat(file.fd(), &made) == 0;
    ::unlinkat(above.fd(), trial.c_str(), 0);
    return known && made.st_uid == folder.st_uid && (folder.st_mode & others_write & ~made.st_mode) == 0;
}

/// Throws Exit::usage if a folder is another user's, or others may write to it. Accepts an owner
/// and mode that the file system shows for every new file.
void check_owner(const HeldFolder& above, const std::string& path, const struct stat& about,
                 const std::string& advice) {
    if (!S_ISDIR(about.st_mode))
        fail(Exit::usage, path + ": is " + (S_ISLNK(about.st_mode) ? "a symbolic link" : "no folder") + "; " + advice);
    const bool own = about.st_uid == ::geteuid();
    if ((own && (about.st_mode & others_write) == 0) || is_as_if_made_now(above, name_of(path), about)) return;
    fail(Exit::usage, path + (own ? ": others may write to it; " : ": belongs to another user; ") + advice);
}

}  // namespace

OwnFolder OwnFolder::taken(HeldFolder above, const std::string& path, const std::string& advice) {
    struct stat seen{}, opened{};
    const bool there = ::fstatat(above.fd(), name_of(path).c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0;
    if (there) check_owner(above, path, seen, advice);
    HeldFolder folder(path);
    const bool same =
        there && ::fstat(folder.fd(), &opened) == 0 && seen.st_dev == opened.st_dev && seen.st_ino == opened.st_ino;
    if (!same) fail(Exit::io, path + ": another folder has just taken its place; " + advice);
    return {advice, std::move(above), std::move(folder)};
}

OwnFolder OwnFolder::existing(const std::string& path, const std::string& advice) {
    return taken(folder_above(path, "opened"), path, advice);
}

OwnFolder OwnFolder::make_or_take(const std::string& path, const std::string& advice) {
    make_folder_of(path);
    HeldFolder above = folder_above(path, "created");
    if (::mkdirat(above.fd(), name_of(path).c_str(), S_IRWXU) != 0 && errno != EEXIST) cannot_make(path, advice);
    return taken(std::move(above), path, advice);
}

OwnFolder OwnFolder::unique(const std::string& prefix, const std::string& advice) {
    make_folder_of(prefix);
    const std::string path = prefix + random_name(6);
    HeldFolder above = folder_above(path, "created");
    if (::mkdirat(above.fd(), name_of(path).c_str(), S_IRWXU) != 0) cannot_make(path, advice);
    OwnFolder made = taken(std::move(above), path, advice);
    std::error_code error;
    if (!made.held().names(error).empty() || error)
        fail(Exit::io, path + ": another folder has just taken its place; " + advice);
    return made;
}

void OwnFolder::check() const {
    if (!folder_.is_still_at_its_path())
        fail(Exit::io, path() + ": was removed, or another folder is in its place; " + advice_);
}

HeldFolder OwnFolder::subfolder(const std::string& name) const {
    check();
    const std::string shown = folder_.shown(name);
    if (::mkdirat(folder_.fd(), name.c_str(), S_IRWXU | S_IRWXG | S_IRWXO) != 0) {
        if (errno != EEXIST) cannot_make(shown, advice_);
        struct stat own{}, about{};
        const bool known =
            ::fstat(folder_.fd(), &own) == 0 && ::fstatat(folder_.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
        if (!known || !S_ISDIR(about.st_mode) || about.st_uid != own.st_uid)
            fail(Exit::usage, shown + ": is no folder of the same user; " + advice_);
    }
    HeldFolder made(folder_, name);
    // An archive may have brought a folder that others may write to, and so may a umask.
    constexpr mode_t by_others = S_IWGRP | S_IWOTH;
    struct stat about{};
    const bool known = ::fstat(made.fd(), &about) == 0;
    const bool closed =
        known && ((about.st_mode & by_others) == 0 || ::fchmod(made.fd(), about.st_mode & ALLPERMS & ~by_others) == 0);
    if (!closed) fail(Exit::usage, shown + ": others may write to it; " + advice_);
    return made;
}

std::error_code OwnFolder::remove() const {
    std::error_code error;
    const std::vector<std::string> names = folder_.names(error);
    return error ? error : remove_only(names);
}

std::error_code OwnFolder::remove_only(const std::vector<std::string>& names) const {
    if (!folder_.is_still_at_its_path()) return std::make_error_code(std::errc::no_such_file_or_directory);
    for (const std::string& name : names)
        if (const std::error_code kept = folder_.remove_tree(name); kept) return kept;
    const bool removed = ::unlinkat(above_.fd(), name_of(path()).c_str(), AT_REMOVEDIR) == 0;
    return removed ? std::error_code() : std::error_code(errno, std::generic_category());
}

namespace {

/// Returns true if root of the namespace above has an id in this process's user namespace.
bool maps_root() {
    std::ifstream map("/proc/self/uid_map");
    int64_t here = 0, above = 0, count = 0;
    bool any = false;
    for (; map >> here >> above >> count; any = true)
        if (above == 0) return true;
    return !any;  // a kernel without user namespaces
}

/// Returns the id that the kernel shows for users who have none in this namespace.
uid_t id_of_unmapped_users() {
    uid_t id = 65534;
    std::ifstream("/proc/sys/kernel/overflowuid") >> id;
    return id;
}

}  // namespace

bool is_another_person(uid_t owner) {
    constexpr uid_t first_person = 1000;
    if (owner < first_person || owner == ::geteuid()) return false;
    return maps_root() || owner != id_of_unmapped_users();
}

std::optional<std::pair<std::string, const char*>> unsafe_folder(fs::path folder, mode_t writers) {
    struct stat found;
    for (; ::stat(folder.c_str(), &found) == 0; folder = folder.parent_path()) {
        if (is_another_person(found.st_uid)) return {{folder, "belongs to another user"}};
        if ((found.st_mode & writers) && !(found.st_mode & S_ISVTX))
            return {{folder, "may be written by others, and has no sticky bit"}};
        if (folder == folder.root_path() || folder.empty()) break;
    }
    return {};
}

}  // namespace convoy
