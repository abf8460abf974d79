#include "base/project.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>

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
/// `owners`. So must links among these: another user's link may lead elsewhere a moment later.
bool is_of(const std::set<uid_t>& owners, const fs::path& home, const fs::path& relative) {
    fs::path path = home;
    struct stat itself{}, target{};
    for (const fs::path& part : relative) {
        path /= part;
        if (::lstat(path.c_str(), &itself) != 0 || !owners.contains(itself.st_uid)) return false;
        if (::stat(path.c_str(), &target) != 0 || !owners.contains(target.st_uid)) return false;
    }
    return true;
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

std::string project_file(const std::string& relative) {
    std::error_code unseen;
    if (const char* home = std::getenv("CONVOY_HOME"); home && *home) {
        const fs::path path = fs::path(home) / relative;
        return fs::exists(path, unseen) ? path.string() : "";
    }
    const fs::path self = executable(), checkout = self.parent_path().parent_path(), sources = CONVOY_SOURCES;
    std::set<uid_t> owners{0, ::geteuid()};
    struct stat status{};
    if (::stat(running, &status) == 0) owners.insert(status.st_uid);
    std::set<uid_t> of_checkout = owners;
    // The owner of the checkout could replace the executable too, so trust that owner's files.
    if (::stat(checkout.c_str(), &status) == 0) of_checkout.insert(status.st_uid);
    if (is_of(of_checkout, checkout, relative)) return (checkout / relative).string();
    // The folders above the sources too: where they were removed, others may make them again.
    const bool is_own = sources.is_absolute() && is_of(owners, "/", sources.relative_path() / relative);
    return is_own ? (sources / relative).string() : "";
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
