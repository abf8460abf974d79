// The place for a file that will be written: a name in an open folder.
#pragma once
#include <string>
#include <utility>

#include "base/held_folder.h"

namespace convoy {

/// The argument of functions that write whole files. It converts from a path.
class HeldPlace {
public:
    HeldPlace(HeldFolder folder, std::string name)
        : folder_(std::move(folder)), name_(std::move(name)), shown_(folder_.shown(name_)) {}
    /// Opens the parent folder of `path`, and makes it first if it is missing. Throws Exit::io.
    HeldPlace(const std::string& path);

    const HeldFolder& folder() const { return folder_; }
    const std::string& name() const { return name_; }
    const std::string& shown() const { return shown_; }         ///< the path for messages
    std::string path() const { return folder_.path(name_); }    ///< as HeldFolder::path()
    std::string partial() const { return name_ + ".partial"; }  ///< the name while it is written
    std::string partial_path() const { return folder_.path(partial()); }
    std::string partial_shown() const { return shown_ + ".partial"; }

private:
    HeldFolder folder_;
    std::string name_, shown_;
};

}  // namespace convoy
