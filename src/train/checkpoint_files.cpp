// The checkpoints of a run as files: their names, which there are, and which go.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/file_error.h"
#include "base/folder.h"
#include "train/checkpoint.h"

namespace convoy {
namespace fs = std::filesystem;

std::string checkpoint_path(const std::string& run_dir, int64_t step) {
    char name[64];
    std::snprintf(name, sizeof name, "/checkpoints/step-%012lld.h5", (long long)step);
    return run_dir + name;
}

std::string best_model_path(const std::string& run_dir) { return run_dir + "/model-best.h5"; }

bool is_checkpoint_name(const std::string& name) {
    constexpr std::string_view begin = "step-", end = ".h5";
    constexpr size_t digits = 12;
    if (!name.starts_with(begin) || !name.ends_with(end) || name.size() < begin.size() + digits + end.size())
        return false;
    const std::string number = name.substr(begin.size(), name.size() - begin.size() - end.size());
    return number.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<std::string> checkpoints_of(const std::string& run_dir) {
    const std::string folder = run_dir + "/checkpoints";
    std::error_code error;
    // a link that leads nowhere may lead to checkpoints on a file system that is not mounted
    if (fs::symlink_status(folder, error).type() == fs::file_type::not_found) return {};
    std::vector<std::string> paths;
    for (const std::string& name : files_in(folder, "check the run folder, and where links lead"))
        if (is_checkpoint_name(name)) paths.push_back(folder + "/" + name);
    std::sort(paths.rbegin(), paths.rend());
    return paths;
}

int64_t step_of_checkpoint(const std::string& path) {
    const std::string name = fs::path(path).filename();
    return std::strtoll(name.c_str() + std::strlen("step-"), nullptr, 10);
}

std::vector<std::string> set_aside_after(const std::string& run_dir, int64_t step) {
    std::vector<std::string> moved;
    for (const std::string& path : checkpoints_of(run_dir)) {
        if (step_of_checkpoint(path) <= step) continue;
        std::error_code error;
        std::string aside = path + ".old";
        for (int n = 2; fs::exists(fs::symlink_status(aside, error)); ++n) aside = path + ".old-" + std::to_string(n);
        fs::rename(path, moved.emplace_back(aside), error);
        if (error)
            fail(Exit::io, path + ": is later than the checkpoint to go on from, and cannot be renamed: " +
                               reason_and_advice(error.value(), "check the folder and its permissions"));
    }
    return moved;
}

namespace {

/// Returns the checkpoints of a run; none if their folder cannot be listed.
std::vector<std::string> checkpoints_to_remove(const std::string& run_dir) {
    try {
        return checkpoints_of(run_dir);
    } catch (const Inaccessible&) {
        return {};  // old ones take no more than room
    }
}

}  // namespace

void prune_checkpoints(const std::string& run_dir, int64_t keep, const Checkpoint& newest) {
    std::error_code ignored;
    int64_t kept = 0;
    for (const std::string& path : checkpoints_to_remove(run_dir)) {
        const int64_t step = step_of_checkpoint(path);
        if (step != newest.step && step != newest.best_step && kept >= keep) fs::remove(path, ignored);
        ++kept;
    }
}

void remove_checkpoints(const std::string& run_dir) {
    std::error_code ignored;
    for (const std::string& path : checkpoints_to_remove(run_dir)) fs::remove(path, ignored);
}

}  // namespace convoy
