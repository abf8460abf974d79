// Working folders in places where other users may make names too: /tmp, a scratch disk, a group's
// folder.
#pragma once
#include <string>
#include <system_error>
#include <utility>

#include "base/held_folder.h"

namespace convoy {

/// A folder of this user with mode 0700, so that other users cannot put files or links into it.
///
/// Where others may rename what is in the folder above it, they can put another folder in its
/// place. What is done through held() and above() is not led astray by that: both folders are held
/// from the beginning. check() tells the user of it. Modes and owners are believed as the file
/// system shows them.
class OwnFolder {
public:
    /// Makes `path`, or takes the folder that is there; what is missing above it is made too.
    /// Throws Exit::io if it cannot be made. Throws Exit::usage, ending with `advice`, for a link,
    /// a file, a folder of another user and one that others may write to.
    static OwnFolder make_or_take(const std::string& path, const std::string& advice);
    /// Takes a folder that another process of this user made. Throws as make_or_take() does.
    static OwnFolder existing(const std::string& path, const std::string& advice);
    /// Makes a folder whose name is `prefix` and six random characters. Throws Exit::io.
    static OwnFolder unique(const std::string& prefix, const std::string& advice);

    const std::string& path() const { return folder_.shown(); }
    const HeldFolder& held() const { return folder_; }
    const HeldFolder& above() const { return above_; }  ///< the folder that this one was made in
    /// Throws Exit::io if the folder is gone, or another one has its path.
    void check() const;
    /// Makes a folder in this one, or takes one that is there. Its mode is the umask's: once it is
    /// renamed to elsewhere, others may see what is in it. Throws as make_or_take() does.
    HeldFolder subfolder(const std::string& name) const;
    /// Removes the folder with all that is in it. Follows no links. Removes nothing if another
    /// folder has its path, and nothing but an empty folder if another one takes it meanwhile.
    std::error_code remove() const;

private:
    OwnFolder(std::string advice, HeldFolder above, HeldFolder folder)
        : advice_(std::move(advice)), above_(std::move(above)), folder_(std::move(folder)) {}
    static OwnFolder taken(HeldFolder above, const std::string& path, const std::string& advice);

    std::string advice_;
    HeldFolder above_, folder_;
};

}  // namespace convoy
