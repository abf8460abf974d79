#include "base/folder.h"

namespace convoy {
namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder, std::error_code& error) {
    std::vector<fs::path> paths;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        paths.push_back(entry->path());
    if (error) paths.clear();
    return paths;
}

bool is_there(const fs::path& path) {
    std::error_code unknown;
    return fs::exists(path, unknown);
}

Error error_at_path(const fs::filesystem_error& thrown) {
    const std::string path = thrown.path1().empty() ? "the current folder" : thrown.path1().string();
    return {Exit::io, path + ": " + thrown.code().message() + "; check the path and its permissions"};
}

}  // namespace convoy
