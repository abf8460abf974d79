// Where a data set goes once it is complete, in place of what is there.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "base/held_folder.h"
#include "base/own_folder.h"

namespace convoy {

/// `dir` without a slash at its end. Throws Exit::usage for what cannot be replaced: "", ".", "..".
std::filesystem::path destination_of(const std::string& dir);

/// A folder that a data set is to have. What is there is looked at and held before the work: after
/// it, nothing else is deleted, whatever has the path by then.
class Destination {
public:
    /// Throws Exit::usage if `dir` exists and is not empty, unless `force` is given and it holds
    /// nothing but a data set. Also for a link, and for another user's folder in one as /tmp.
    explicit Destination(const std::string& dir, bool force = false);
    const std::filesystem::path& path() const { return path_; }
    /// Returns what to tell the user if a link of another user leads to it, else empty.
    std::string warning() const;
    /// Renames the finished folder `name` in `working`, a folder beside path(), to path(). What was
    /// there is deleted with `force` if it holds a data set and nothing else, or if it is empty.
    /// Else it is kept beside path(), and a line that says so is returned. Throws Exit::io, also if
    /// path() leads to another folder than at the beginning; that one is then left there.
    std::string put_in_place(const OwnFolder& working, const std::string& name) const;

private:
    std::filesystem::path path_;
    bool force_;
    std::optional<HeldFolder> above_;  ///< the folder that path() lies in; none: nothing
    std::optional<HeldFolder> there_;  ///< what was there; none: nothing
};

}  // namespace convoy
