// Names, lists and removes the checkpoint files of a run.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/file_error.h"
#include "base/folder.h"
#include "train/checkpoint.h"

namespace convoy {
namespace fs = std::filesystem;

std::string checkpoint_name(int64_t step) { return formatted("step-%012lld.h5", (long long)step); }

std::string checkpoint_path(const std::string& run_dir, int64_t step) {
    return run_dir + "/checkpoints/" + checkpoint_name(step);
}

std::string best_model_path(const std::string& run_dir) { return run_dir + "/" + best_model_name; }

bool is_checkpoint_name(const std::string& name) {
    constexpr std::string_view begin = "step-", end = ".h5";
    constexpr size_t digits = 12;
    if (!name.starts_with(begin) || !name.ends_with(end) || name.size() < begin.size() + digits + end.size())
        return false;
    const std::string number = name.substr(begin.size(), name.size() - begin.size() - end.size());
    return number.find_first_not_of("0123456789") == std::string::npos;
}

namespace {

constexpr const char* where_links_lead = "check the run folder, and where links lead";

/// Returns the names of checkpoints among `names`, newest first.
std::vector<std::string> checkpoints_among(std::vector<std::string> names) {
    std::erase_if(names, [](const std::string& name) { return !is_checkpoint_name(name); });
    std::sort(names.rbegin(), names.rend());
    return names;
}

}  // namespace

std::vector<std::string> checkpoints_of(const std::string& run_dir) {
    const std::string folder = run_dir + "/checkpoints";
    std::error_code error;
    // A link without a target does not count as missing: its file system may not be mounted.
    if (fs::symlink_status(folder, error).type() == fs::file_type::not_found) return {};
    std::vector<std::string> paths;
    for (const std::string& name : checkpoints_among(files_in(folder, where_links_lead)))
        paths.push_back(folder + "/" + name);
    return paths;
}

std::vector<std::string> checkpoints_in(const HeldFolder& folder) {
    std::error_code error;
    std::vector<std::string> names = folder.names(error);
    if (error) cannot_read(folder.shown(), error.value(), where_links_lead);
    return checkpoints_among(std::move(names));
}

int64_t step_of_checkpoint(const std::string& path) {
    const std::string name = fs::path(path).filename();
    return std::strtoll(name.c_str() + std::strlen("step-"), nullptr, 10);
}

std::vector<std::string> set_aside_after(const RunFiles& files, int64_t step) {
    std::vector<std::string> moved;
    const std::optional<HeldFolder> folder = files.checkpoints_if_any();
    if (!folder) return moved;
    for (const std::string& name : checkpoints_in(*folder)) {
        if (step_of_checkpoint(name) <= step) continue;
        std::string aside = name + ".old";
        for (int n = 2; folder->has(aside); ++n) aside = name + ".old-" + std::to_string(n);
        if (const std::error_code error = folder->rename(name, aside))
            fail(Exit::io, folder->shown(name) +
                               ": is later than the checkpoint to resume from, and cannot be renamed: " +
                               reason_and_advice(error.value(), "check the folder and its permissions"));
        moved.push_back(folder->shown(aside));
    }
    return moved;
}

namespace {

/// Calls f(folder, name) for the checkpoints of a run, newest first. Does nothing if their folder
/// cannot be listed.
template <class F> void each_to_remove(const RunFiles& files, F f) {
    try {
        const std::optional<HeldFolder> folder = files.checkpoints_if_any();
        if (!folder) return;
        for (const std::string& name : checkpoints_in(*folder)) f(*folder, name);
    } catch (const Error&) {  // harmless: old checkpoints only take space
    }
}

}  // namespace

void prune_checkpoints(const RunFiles& files, int64_t keep, const Checkpoint& newest) {
    int64_t kept = 0;
    each_to_remove(files, [&](const HeldFolder& folder, const std::string& name) {
        const int64_t step = step_of_checkpoint(name);
        if (step != newest.step && step != newest.best_step && kept >= keep) folder.try_to_remove(name);
        ++kept;
    });
}

void remove_checkpoints(const RunFiles& files) {
    each_to_remove(files, [](const HeldFolder& folder, const std::string& name) { folder.try_to_remove(name); });
}

}  // namespace convoy
