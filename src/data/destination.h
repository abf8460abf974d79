// Puts a complete data set at its path, and replaces what is there.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "base/held_folder.h"
#include "base/own_folder.h"

namespace convoy {

/// Returns `dir` without a slash at its end. Throws Exit::usage for "", "." and "..", which cannot
/// be replaced.
std::filesystem::path destination_of(const std::string& dir);

/// The future path of a data set. The constructor opens the folder that is at that path now. Only
/// that folder is deleted later, even if the path then leads to another one.
class Destination {
public:
    /// Throws Exit::usage if `dir` exists and is not empty, unless `force` is given and it holds
    /// only a data set. Also throws it if `dir` is a link, or another user's folder in a sticky
    /// folder such as /tmp.
    explicit Destination(const std::string& dir, bool force = false);
    const std::filesystem::path& path() const { return path_; }
    /// Returns a warning if the path leads through a link of another user, else "".
    std::string warning() const;
    /// Renames the finished folder `name` in `working`, a folder beside path(), to path(). Deletes
    /// the old folder if it is empty, or with `force` if it holds only a data set. Otherwise keeps
    /// it beside path(), and returns a line that says so. Throws Exit::io, also if path() now leads
    /// to another folder than the constructor opened. That folder stays there.
    std::string put_in_place(const OwnFolder& working, const std::string& name) const;

private:
    std::filesystem::path path_;
    bool force_;
    std::optional<HeldFolder> above_;  ///< the parent of path(); empty if it did not exist
    std::optional<HeldFolder> there_;  ///< the old folder; empty if there was none
};

}  // namespace convoy
