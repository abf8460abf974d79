// Working folders in places where other users may make names too: /tmp, a scratch disk, a group's
// folder.
#pragma once
#include <string>
#include <system_error>
#include <utility>

#include "base/descriptor.h"

namespace convoy {

/// A folder of this user's with mode 0700, so that nobody else can put a file or link into it.
///
/// Only the owner can rename it where its parent has the sticky bit, as /tmp has, or may not be
/// written by others: there nobody can put another folder in its place. Elsewhere they can. check()
/// notices that when it is called, not between two calls, and remove() does not remove what is
/// another folder. Modes and owners are believed as the file system shows them.
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

    const std::string& path() const { return path_; }
    /// Throws Exit::io if the folder is gone, or another one has its path.
    void check() const;
    /// Makes a folder in this one, or takes one that is there. Its mode is the umask's: once it is
    /// renamed to elsewhere, others may see what is in it. Throws as make_or_take() does.
    std::string subfolder(const std::string& name) const;
    /// Removes the folder with all that is in it. Follows no links. Removes nothing if another
    /// folder has its path.
    std::error_code remove() const;

private:
    OwnFolder(std::string path, std::string advice, Descriptor folder)
        : path_(std::move(path)), advice_(std::move(advice)), folder_(std::move(folder)) {}
    bool is_at_its_path() const;

    std::string path_, advice_;
    Descriptor folder_;
};

}  // namespace convoy
