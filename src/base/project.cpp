#include "base/project.h"

#include <filesystem>

namespace convoy {
namespace fs = std::filesystem;
namespace {

fs::path executable() {
    std::error_code unknown;
    return fs::read_symlink("/proc/self/exe", unknown);
}

}  // namespace

std::string project_file(const std::string& relative) {
    std::error_code unseen;
    for (const fs::path& path : {executable().parent_path().parent_path() / relative, fs::path(relative)})
        if (fs::exists(path, unseen)) return path.string();
    return "";
}

std::string own_command() {
    std::error_code unknown;
    std::string path = executable().string();
    const fs::path here = fs::current_path(unknown);  // gone, perhaps
    if (unknown) return path;
    const std::string near = fs::proximate(path, here, unknown).string();
    if (unknown || near.empty() || near.starts_with("..")) return path;
    return near.find('/') == std::string::npos ? "./" + near : near;
}

}  // namespace convoy
