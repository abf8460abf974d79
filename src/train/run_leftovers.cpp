#include "train/run_leftovers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/file_error.h"
#include "base/folder.h"
#include "base/text.h"
#include "train/checkpoint.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 5> files_of_a_run = {"metrics.h5", "metrics.jsonl", "model.h5", "model-best.h5",
                                                            "metrics.png"};
constexpr std::string_view partial = ".partial";

bool is_number(const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// Whether `name` is `begin`NUMBER`end`.
bool is_numbered(const std::string& name, std::string_view begin, std::string_view end) {
    return name.size() > begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end) &&
           is_number(name.substr(begin.size(), name.size() - begin.size() - end.size()));
}

/// Whether a killed run may have left a file of this name, half written.
bool is_half_written(const std::string& name) {
    if (!name.ends_with(partial)) return false;
    const std::string whole = name.substr(0, name.size() - partial.size());
    return whole == "metrics.h5" || whole == "model.h5" || whole == "model-best.h5" || whole == "oom" ||
           is_checkpoint_name(whole);
}

/// Whether the name is that of a checkpoint, or of one that set_aside_after() renamed.
bool is_of_checkpoint(const std::string& name) {
    const size_t aside = name.find(".old");
    const std::string rest = aside == std::string::npos ? "" : name.substr(aside);
    return is_checkpoint_name(name.substr(0, aside)) &&
           (rest.empty() || rest == ".old" || is_numbered(rest, ".old-", ""));
}

void remove_reports(const fs::path& folder) {
    std::error_code ignored;
    if (fs::symlink_status(folder, ignored).type() != fs::file_type::directory) return;
    for (const fs::path& entry : entries_of(folder, ignored))
        if (is_numbered(entry.filename(), "rank-", ".txt")) fs::remove(entry, ignored);
    fs::remove(folder, ignored);
}

void remove_or_fail(const std::string& path) {
    std::error_code error;
    fs::remove(path, error);
    if (error)
        fail(Exit::io, path + ": belongs to the run that --overwrite replaces, and cannot be removed: " +
                           reason_and_advice(error.value(), "choose another --output"));
}

bool is_run_folder(const fs::path& folder) {
    return is_there(folder / "metrics.h5") || is_there(folder / "metrics.jsonl");
}

}  // namespace

void remove_leftovers(const std::string& run_dir) {
    std::error_code ignored;
    for (const char* folder : {"", "/checkpoints"})
        for (const fs::path& entry : entries_of(run_dir + folder, ignored)) {
            if (is_half_written(entry.filename())) fs::remove(entry, ignored);
            if (is_trial(entry.filename())) remove_trial(entry);
        }
    remove_reports(run_dir + "/stalled");
}

bool has_steps(const std::string& run_dir) {
    for (const char* model : {"/model.h5", "/model-best.h5"})
        if (is_there(run_dir + model)) return true;
    const std::vector<std::string> checkpoints = checkpoints_of(run_dir);
    if (std::any_of(checkpoints.begin(), checkpoints.end(),
                    [](const std::string& path) { return step_of_checkpoint(path) != 0; }))
        return true;
    std::ifstream lines(run_dir + "/metrics.jsonl");
    if (!lines) return true;  // nothing is known of it
    for (std::string line; std::getline(lines, line);)
        if (line.find("\"kind\":\"train\"") != std::string::npos) return true;
    return false;
}

void remove_run(const std::string& run_dir) {
    const std::string checkpoints = run_dir + "/checkpoints";
    std::error_code error;
    // checkpoints first: if a later removal fails, no run can resume from half a run
    for (const fs::path& entry : entries_of(checkpoints, error))
        if (is_of_checkpoint(entry.filename())) remove_or_fail(entry);
    // with other files in it, or a link, it stays
    if (fs::symlink_status(checkpoints, error).type() == fs::file_type::directory) fs::remove(checkpoints, error);
    for (const std::string_view name : files_of_a_run) remove_or_fail(run_dir + "/" + std::string(name));
}

std::string check_checkpoints_link(const std::string& run_dir) {
    const std::string link = run_dir + "/checkpoints";
    struct stat status{};
    if (::lstat(link.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return "";
    if (status.st_uid != ::geteuid() && status.st_uid != 0)
        fail(Exit::io, link + ": is a link that another user made; choose another --output");
    std::error_code error;
    const fs::path target = fs::weakly_canonical(link, error), run = fs::weakly_canonical(run_dir, error);
    for (const fs::path& other : {target, target.parent_path()})
        if (other != run && is_run_folder(other))
            fail(Exit::io, link + ": is a link into another run, " + other.string() +
                               ", whose checkpoints this one would replace; choose another --output, or put a folder "
                               "in the link's place");
    if (!is_there(link)) return "";  // find_resume_point() says what is missing
    return link + ": is a link: checkpoints are written and removed in " + target.string();
}

std::string warning_of_owner(const std::string& run_dir) {
    struct stat status{};
    if (::stat(run_dir.c_str(), &status) != 0) return "";
    if (status.st_uid != ::geteuid())
        return run_dir + formatted(
                             ": belongs to another user (uid %u), who can change what this run writes and reads "
                             "there; choose another --output unless you share it",
                             unsigned(status.st_uid));
    if ((status.st_mode & S_IWOTH) != 0)
        return run_dir +
               ": every user of this machine can change what this run writes and reads there; chmod o-w it, "
               "or choose another --output";
    return "";
}

}  // namespace convoy
