#include "base/folder.h"

#include <dirent.h>
#include <fcntl.h>

#include <cerrno>
#include <memory>

#include "base/descriptor.h"
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

std::vector<std::string> names_in(int folder, std::error_code& error) {
    std::vector<std::string> names;
    Descriptor own(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::fdopendir(own.fd()), ::closedir);
    if (open) own.release();
    errno = open ? 0 : errno;
    for (const dirent* entry = nullptr; open && (entry = ::readdir(open.get()));)
        if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
    error.assign(errno, std::generic_category());
    return names;
}

std::vector<std::string> files_in(const std::string& folder, const std::string& advice) {
    std::error_code error;
    std::vector<std::string> names;
    for (const fs::path& path : entries_of(folder, error)) names.push_back(path.filename());
    if (error) cannot_read(folder, error.value(), advice);
    return names;
}

int open_current_folder() {
    constexpr int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    const int folder = ::open("/proc/self/cwd", flags);
    return folder >= 0 ? folder : ::open(".", flags);  // without /proc
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
