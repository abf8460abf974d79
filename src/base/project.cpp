#include "base/project.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/file_error.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

/// The folder of the sources of this executable when it was built.
#ifndef CONVOY_SOURCES
#define CONVOY_SOURCES ""
#endif

constexpr const char* running = "/proc/self/exe";

fs::path executable() {
    std::error_code unknown;
    return fs::read_symlink(running, unknown);
}

/// Returns true if `home`/`relative` exists, and it and the folders below `home` belong to
/// `owners`, and no other user can have put them there. Checks links too, because another user's
/// link may lead elsewhere a moment later.
bool is_of(const std::set<uid_t>& owners, const fs::path& home, const fs::path& relative) {
    fs::path path = home;
    struct stat itself{}, target{};
    for (const fs::path& part : relative) {
        path /= part;
        if (::lstat(path.c_str(), &itself) != 0 || !owners.contains(itself.st_uid)) return false;
        if (::stat(path.c_str(), &target) != 0 || !owners.contains(target.st_uid)) return false;
        if (may_be_put_there(itself, path.parent_path())) return false;
    }
    return true;
}

/// Returns an entry below `folder`, at any depth, that is_of() refuses, or `folder` if it cannot be
/// listed; else empty. Skips names that begin with a dot, because Python does not import them.
fs::path strangers_file(const std::set<uid_t>& owners, const fs::path& folder) {
    std::error_code unseen;
    fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, unseen);
    for (; !unseen && entry != fs::recursive_directory_iterator(); entry.increment(unseen)) {
        if (entry->path().filename().native().starts_with("."))
            entry.disable_recursion_pending();
        else if (!is_of(owners, folder, entry->path().lexically_relative(folder)))
            return entry->path();
    }
    return unseen ? folder : fs::path();
}

/// Returns the path of a trusted file of the checkout; empty if there is none. If `strange` is
/// given, all files of its folder must be trusted; sets `strange` to one that is not.
fs::path file_that_counts(const fs::path& relative, fs::path* strange) {
    const auto counts = [&](const std::set<uid_t>& owners, const fs::path& home, const fs::path& below) {
        if (!is_of(owners, home, below)) return false;
        const fs::path found = strange ? strangers_file(owners, (home / below).parent_path()) : fs::path();
        if (!found.empty()) *strange = found;
        return found.empty();
    };
    const fs::path self = executable(), checkout = self.parent_path().parent_path(), sources = CONVOY_SOURCES;
    std::set<uid_t> owners{0, ::geteuid()};
    struct stat status{};
    if (::stat(running, &status) == 0) owners.insert(status.st_uid);
    std::set<uid_t> of_checkout = owners;
    // The owner of both folders could replace the executable too, so trust that owner's files.
    struct stat above{};
    const bool is_known = ::stat(self.parent_path().c_str(), &status) == 0 && ::stat(checkout.c_str(), &above) == 0;
    if (is_known && status.st_uid == above.st_uid) of_checkout.insert(above.st_uid);
    if (counts(of_checkout, checkout, relative)) return checkout / relative;
    // The folders above the sources must be trusted too, because others may recreate removed ones.
    const bool is_own = sources.is_absolute() && counts(owners, "/", sources.relative_path() / relative);
    return is_own ? sources / relative : fs::path();
}

/// Returns a file's path below $CONVOY_HOME; empty if it is missing, nullopt without $CONVOY_HOME.
std::optional<std::string> file_of_home(const std::string& relative) {
    const char* home = std::getenv("CONVOY_HOME");
    if (!home || !*home) return std::nullopt;
    std::error_code unseen;
    const fs::path path = fs::path(home) / relative;
    return fs::exists(path, unseen) ? path.string() : "";
}

/// Returns the path of this executable, or of the file that its owner has put there since, as a
/// build does. Empty if there is neither. Another user's file does not count: in /tmp, others can
/// make one where the executable was removed.
std::string own_executable() {
    std::string path = executable().string();
    struct stat itself{}, named{};
    if (::stat(running, &itself) != 0) return "";
    const auto is_there = [&] { return ::stat(path.c_str(), &named) == 0 && S_ISREG(named.st_mode); };
    if (is_there() && named.st_dev == itself.st_dev && named.st_ino == itself.st_ino) return path;
    constexpr std::string_view removed = " (deleted)";  // as Linux writes it
    if (path.ends_with(removed)) path.resize(path.size() - removed.size());
    return is_there() && named.st_uid == itself.st_uid ? path : "";
}

}  // namespace

bool may_be_put_there(const struct stat& entry, const std::string& folder) {
    constexpr mode_t by_others = S_IWGRP | S_IWOTH;
    struct stat above{};
    if (!(entry.st_mode & by_others)) return false;
    if (::stat(folder.c_str(), &above) != 0) return true;
    return (above.st_mode & by_others) && (above.st_mode & (S_ISVTX | S_IWOTH));
}

std::string project_file(const std::string& relative) {
    if (const std::optional<std::string> named = file_of_home(relative)) return *named;
    return file_that_counts(relative, nullptr).string();
}

std::string project_script(const std::string& relative) {
    const std::string own = "name a checkout of your own: CONVOY_HOME=/path/to/convoy";
    const std::optional<std::string> named = file_of_home(relative);
    fs::path strange;
    const std::string path = named ? *named : file_that_counts(relative, &strange).string();
    struct stat status{};
    if (path.empty() && !strange.empty() && ::lstat(strange.c_str(), &status) == 0)
        fail(Exit::bad_input, strange.string() + (S_ISLNK(status.st_mode) ? ": is a link of " : ": belongs to ") +
                                  name_of_user(status.st_uid) + ", and " + relative +
                                  " could import another user's code by it; remove it, or " + own);
    if (path.empty())
        fail(Exit::bad_input, relative + " is not in this executable's checkout, or belongs to another user; " + own);
    return path;
}

std::string own_command() {
    std::error_code unknown;
    std::string path = own_executable();
    if (path.empty()) return "convoy";
    const fs::path here = fs::current_path(unknown);  // may have been deleted
    if (unknown) return path;
    const std::string near = fs::proximate(path, here, unknown).string();
    if (unknown || near.empty() || near.starts_with("..")) return path;
    return near.find('/') == std::string::npos ? "./" + near : near;
}

}  // namespace convoy
