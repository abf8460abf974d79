// The place of a file, for code that opens files by path.
#pragma once
#include <filesystem>
#include <string>
#include <utility>

#include "base/held_folder.h"

namespace convoy {

/// A file that is opened by one path and shown in messages by another. They differ for a file in a
/// held folder. It is opened below /proc/self/fd, but people know the path of the folder.
struct FilePlace {
    FilePlace(const std::string& path) : opened(path), shown(path) {}
    FilePlace(const char* path) : opened(path), shown(path) {}
    FilePlace(const std::filesystem::path& path) : opened(path.string()), shown(path.string()) {}
    /// Names a file in a held folder. The folder must be held as long as `opened` is used.
    FilePlace(const HeldFolder& folder, const std::string& name)
        : opened(folder.path(name)), shown(folder.shown(name)) {}

    std::string opened, shown;
};

}  // namespace convoy
