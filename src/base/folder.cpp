#include "base/folder.h"

#include "base/file_error.h"

namespace convoy {
namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder, std::error_code& error) {
    std::vector<fs::path> paths;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        paths.push_back(entry->path());
    if (error) paths.clear();
    return paths;
}

std::vector<std::string> files_in(const std::string& folder, const std::string& advice) {
    std::error_code error;
    std::vector<std::string> names;
    for (const fs::path& path : entries_of(folder, error)) names.push_back(path.filename());
    if (error) cannot_read(folder, error.value(), advice);
    return names;
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
