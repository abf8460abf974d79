// Working folders in places where other users can also make files: /tmp, a scratch disk, a group's
// folder.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/held_folder.h"

namespace convoy {

/// A folder of this user with mode 0700, so that other users cannot put files or links into it.
///
/// Users who can rename entries of the parent folder can replace this folder by another one. held()
/// and above() still lead to the original folders, because both are opened at the beginning.
/// check() reports a replaced folder. Modes and owners are trusted as the file system shows them.
class OwnFolder {
public:
    /// Makes `path` and its missing parents, or takes the folder that exists. Throws Exit::io if it
    /// cannot be made. Throws Exit::usage, ending with `advice`, for a link, a file, another user's
    /// folder, or a folder that others may write to.
    static OwnFolder make_or_take(const std::string& path, const std::string& advice);
    /// Takes a folder that another process of this user made. Throws as make_or_take() does.
    static OwnFolder existing(const std::string& path, const std::string& advice);
    /// Makes a folder whose name is `prefix` and six random characters. Throws Exit::io, also if
    /// a folder with content has taken its place.
    static OwnFolder unique(const std::string& prefix, const std::string& advice);

    const std::string& path() const { return folder_.shown(); }
    const HeldFolder& held() const { return folder_; }
    const HeldFolder& above() const { return above_; }  ///< the folder that this one was made in
    /// Throws Exit::io if the folder was removed, or another one has its path.
    void check() const;
    /// Makes a folder in this one, or takes one that is there. Its mode is the umask's, so that
    /// others can read it after it is renamed to another place, but they cannot write to it. Throws
    /// as make_or_take() does.
    HeldFolder subfolder(const std::string& name) const;
    /// Removes the folder and its content; for folders of unique(). Follows no links. Removes
    /// nothing if another folder has its path. If another folder gets the path meanwhile, that
    /// folder is removed only if it is empty.
    std::error_code remove() const;
    /// Removes these entries in this order, and then the folder if nothing else is in it. Otherwise
    /// works like remove(). Use it for a folder that this process did not make, because users may
    /// have put files into it.
    std::error_code remove_only(const std::vector<std::string>& names) const;

private:
    OwnFolder(std::string advice, HeldFolder above, HeldFolder folder)
        : advice_(std::move(advice)), above_(std::move(above)), folder_(std::move(folder)) {}
    static OwnFolder taken(HeldFolder above, const std::string& path, const std::string& advice);

    std::string advice_;
    HeldFolder above_, folder_;
};

/// Returns true if `owner` is a person other than this user. Ids below 1000 are root's and the
/// system's. In a rootless container, the host's root may have no id. Files of all users without an
/// id then show the same owner, usually 65534. This owner counts as root.
bool is_another_person(uid_t owner);

/// Looks for a folder in which another user may rename entries, and so exchange them: in `folder`
/// and in all folders above it. Returns the first one with the reason; nothing if there is none.
/// `writers`: the permissions that matter, S_IWGRP or S_IWOTH. `folder` is a path without links,
/// because the folders above a link's target matter too.
std::optional<std::pair<std::string, const char*>> unsafe_folder(std::filesystem::path folder, mode_t writers);

}  // namespace convoy
