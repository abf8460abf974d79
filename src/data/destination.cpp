// Folders are renamed and deleted by the descriptors of the folders above them.
#include "data/destination.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/held_file.h"
#include "data/shard.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

/// True if --force may delete `name` in a folder, because it is a file of a data set.
bool is_of_data_set(const HeldFolder& folder, const std::string& name) {
    std::string split;
    int shard = 0, shards = 0;
    struct stat about{};
    return (name == "manifest.json" || parse_shard_name(name, split, shard, shards)) &&
           ::fstatat(folder.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(about.st_mode);
}

bool are_same(const HeldFolder& a, const HeldFolder& b) {
    struct stat one{}, other{};
    return ::fstat(a.fd(), &one) == 0 && ::fstat(b.fd(), &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/// Renames a folder to an unused name. On failure returns false and sets errno: EEXIST if the name
/// is used. Network file systems lack such a rename; there, it may replace an empty folder that
/// appears meanwhile.
bool rename_new(const HeldFolder& from, const std::string& name, const HeldFolder& to, const std::string& as) {
    if (::renameat2(from.fd(), name.c_str(), to.fd(), as.c_str(), RENAME_NOREPLACE) == 0) return true;
    if (errno == EEXIST) return false;
    struct stat about{};
    if (::fstatat(to.fd(), as.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return false;
    }
    return ::renameat(from.fd(), name.c_str(), to.fd(), as.c_str()) == 0;
}

/// The old folder at the destination, moved aside for the new one.
class Replaced {
public:
    /// Renames the folder `to` to an unused name. `expected`: the folder it must be; null: any.
    Replaced(const HeldFolder& above, const fs::path& to, const HeldFolder* expected)
        : above_(above), to_(to), name_(to.filename()), old_name_(name_ + ".replaced-" + random_name(6)) {
        struct stat about{};
        const bool there = ::fstatat(above_.fd(), name_.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
        if (there && !S_ISDIR(about.st_mode)) errno = ENOTDIR;
        if (!there || !S_ISDIR(about.st_mode) || !rename_new(above_, name_, above_, old_name_)) fail_to_place();
        try {
            folder_.emplace(above_, old_name_);
        } catch (const Error& error) {
            fail(Exit::io, to_.string() + ": cannot be put in place: " + error.what() + put_back());
        }
        if (expected && !are_same(*expected, *folder_))
            fail(Exit::io, to_.string() +
                               ": another folder is there than at the beginning, and nothing of it was deleted; "
                               "see which one you want there, and start again" +
                               put_back());
    }
    void take(const HeldFolder& working, const std::string& name) const {
        if (rename_new(working, name, above_, name_)) return;
        const int code = errno;
        const std::string now = put_back();
        errno = code;
        fail_to_place(now);
    }
    /// Deletes the folder. Returns a message for the user if something was kept, else "".
    std::string discard(bool force) const {
        std::error_code error;
        const std::vector<std::string> names = folder_->names(error);
        if (error) return kept("cannot be looked into (" + error.message() + ")");
        for (const std::string& name : names)
            if (!force || !is_of_data_set(*folder_, name))
                return kept("holds " + name + (force ? ", which is not part of a data set" : ""));
        const bool deleted = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
            return ::unlinkat(folder_->fd(), name.c_str(), 0) == 0;
        });
        if (deleted && ::unlinkat(above_.fd(), old_name_.c_str(), AT_REMOVEDIR) == 0) return "";
        return kept("cannot all be deleted (" + std::string(std::strerror(errno)) + ")");
    }

private:
    [[noreturn]] void fail_to_place(const std::string& more = "") const {
        fail(Exit::io, to_.string() + ": cannot be put in place (" + std::strerror(errno) + ")" + more);
    }
    std::string old_path() const { return (to_.parent_path() / old_name_).string(); }
    std::string kept(const std::string& why) const {
        return to_.string() + ": what was there before " + why + "; it is kept as " + old_path();
    }
    /// Moves the folder back. Returns a message for the user if its path is used by now, else "".
    std::string put_back() const {
        return rename_new(above_, old_name_, above_, name_) ? "" : "; what was there is now " + old_path();
    }

    const HeldFolder& above_;
    const fs::path to_;
    const std::string name_, old_name_;
    std::optional<HeldFolder> folder_;
};

void sync(const HeldFolder& folder, const std::string& shown) {
    if (const std::error_code error = folder.sync())
        fail(Exit::io, shown + ": cannot be written to the end (" + error.message() + "); is the disk full?");
}

/// Throws if the destination is a link, which may be another user's. Also throws for another
/// user's folder in a sticky one such as /tmp, where only the owner may rename it.
void check_owner(const std::string& dir, const fs::path& to) {
    struct stat about{}, parent{};
    if (::lstat(to.c_str(), &about) != 0) return;
    std::error_code unknown;
    if (S_ISLNK(about.st_mode))
        fail(Exit::usage, dir + ": is a symbolic link to " + fs::read_symlink(to, unknown).string() +
                              "; give --to that folder itself");
    const uid_t user = ::geteuid();
    const bool known = ::stat(to.has_parent_path() ? to.parent_path().c_str() : ".", &parent) == 0;
    if (known && (parent.st_mode & S_ISVTX) && user != 0 && about.st_uid != user && parent.st_uid != user)
        fail(Exit::usage,
             dir + ": belongs to another user, who alone may rename it in this folder; choose another --to");
}

/// Gives a folder the permissions that mkdir() gives. Only its owner could write while it was made.
void give_permissions_of_umask(const HeldFolder& folder) {
    constexpr mode_t by_others = S_IWGRP | S_IWOTH;
    const mode_t mask = ::umask(by_others);
    ::umask(mask);
    struct stat about{};
    if (::fstat(folder.fd(), &about) != 0 ||
        ::fchmod(folder.fd(), (about.st_mode & ALLPERMS) | (by_others & ~mask)) != 0)
        fail(Exit::io, folder.shown() + ": cannot get the permissions of the umask (" + std::strerror(errno) + ")");
}

}  // namespace

fs::path destination_of(const std::string& dir) {
    fs::path destination = fs::path(dir).lexically_normal();
    if (!destination.has_filename()) destination = destination.parent_path();  // "data/" means "data"
    if (destination.empty() || destination.filename() == "." || destination.filename() == "..")
        fail(Exit::usage, "'" + dir + "' cannot be replaced by a data set; give --to another folder");
    return destination;
}

Destination::Destination(const std::string& dir, bool force) : path_(destination_of(dir)), force_(force) {
    check_owner(dir, path_);
    std::error_code error;
    const fs::path above = path_.has_parent_path() ? path_.parent_path() : ".";
    if (fs::is_directory(above, error)) above_.emplace(above, HeldFolder::IfLink::follow);
    if (!fs::exists(path_, error)) return;
    try {
        there_.emplace(path_);
    } catch (const Error&) {
        error = std::make_error_code(std::errc::not_a_directory);
    }
    const std::vector<std::string> names = error ? std::vector<std::string>() : there_->names(error);
    if (error) fail(Exit::usage, dir + ": exists and is not a readable folder; choose another --to");
    for (const std::string& name : names) {
        if (!force)
            fail(Exit::usage, dir + ": is not empty; choose another --to, or replace the data set there with --force");
        if (!is_of_data_set(*there_, name))
            fail(Exit::usage,
                 dir + ": holds " + name +
                     ", which is not part of a data set; --force does not delete that, choose another --to");
    }
}

std::string Destination::warning() const {
    fs::path place;
    for (const fs::path& part : path_.parent_path()) {
        place /= part;
        struct stat about{};
        if (::lstat(place.c_str(), &about) != 0) return "";
        if (!S_ISLNK(about.st_mode) || about.st_uid == 0 || about.st_uid == ::geteuid()) continue;
        std::error_code unknown;
        return path_.string() + ": " + place.string() + " is a symbolic link of another user; the data set goes to " +
               (fs::weakly_canonical(path_.parent_path(), unknown) / path_.filename()).string();
    }
    return "";
}

std::string Destination::put_in_place(const OwnFolder& working, const std::string& name) const {
    if (above_ && !are_same(*above_, working.above()))
        fail(Exit::io, path_.string() + ": the folder above it is another one than at the beginning; start again");
    const HeldFolder finished(working.held(), name);
    give_permissions_of_umask(finished);
    sync(finished, finished.shown());
    std::string kept;
    // A plain rename suffices if there is no folder or an empty one.
    if (::renameat(working.held().fd(), name.c_str(), working.above().fd(), path_.filename().c_str()) != 0) {
        if (errno != EEXIST && errno != ENOTEMPTY)
            fail(Exit::io, path_.string() + ": cannot be put in place (" + std::strerror(errno) + ")");
        const Replaced replaced(working.above(), path_, there_ ? &*there_ : nullptr);
        replaced.take(working.held(), name);
        kept = replaced.discard(force_ && there_);
    }
    sync(working.above(), path_.string());
    struct stat made{}, now{};
    if (::fstat(finished.fd(), &made) != 0 || ::lstat(path_.c_str(), &now) != 0 || made.st_dev != now.st_dev ||
        made.st_ino != now.st_ino)
        fail(Exit::io, path_.string() +
                           ": the data set is complete, but another folder has this path now; look for it where the "
                           "folder above was moved to");
    return kept;
}

}  // namespace convoy
