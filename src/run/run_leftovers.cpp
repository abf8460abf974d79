#include "run/run_leftovers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/file_error.h"
#include "base/folder.h"
#include "base/own_folder.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "data/input_bytes.h"
#include "train/checkpoint.h"

namespace convoy {
namespace {

constexpr std::array<std::string_view, 5> files_of_a_run = {"metrics.h5", "metrics.jsonl", "model.h5", "model-best.h5",
                                                            "metrics.png"};
constexpr std::string_view partial = ".partial";
constexpr int64_t most_bytes_before_steps = 64 << 20;

bool is_number(const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// Returns true if `name` is `begin`, a number, and `end`.
bool is_numbered(const std::string& name, std::string_view begin, std::string_view end) {
    return name.size() > begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end) &&
           is_number(name.substr(begin.size(), name.size() - begin.size() - end.size()));
}

/// Returns true if `name` is that of a file that a killed run may have left half written.
bool is_half_written(const std::string& name) {
    if (!name.ends_with(partial)) return false;
    const std::string whole = name.substr(0, name.size() - partial.size());
    return whole == "metrics.h5" || whole == "model.h5" || whole == "model-best.h5" || whole == "oom" ||
           is_checkpoint_name(whole);
}

/// Returns true if `name` is that of a checkpoint, or of one that set_aside_after() renamed.
bool is_of_checkpoint(const std::string& name) {
    const size_t aside = name.find(".old");
    const std::string rest = aside == std::string::npos ? "" : name.substr(aside);
    return is_checkpoint_name(name.substr(0, aside)) &&
           (rest.empty() || rest == ".old" || is_numbered(rest, ".old-", ""));
}

void remove_reports(const HeldFolder& run) {
    try {
        const HeldFolder folder(run, "stalled");
        std::error_code ignored;
        for (const std::string& name : folder.names(ignored))
            if (is_numbered(name, "rank-", ".txt")) folder.try_to_remove(name);
        run.try_to_remove("stalled");
    } catch (const Error&) {  // there is no such folder, or it is not Convoy's
    }
}

void remove_half_written(const HeldFolder& folder) {
    std::error_code ignored;
    for (const std::string& name : folder.names(ignored)) {
        if (is_half_written(name)) folder.try_to_remove(name);
        if (is_trial(name)) remove_trial(folder, name);
    }
}

void remove_or_fail(const HeldFolder& folder, const std::string& name) {
    if (const std::error_code error = folder.remove(name))
        fail(Exit::io, folder.shown(name) + ": belongs to the run that --overwrite replaces, and cannot be removed: " +
                           reason_and_advice(error.value(), "choose another --output"));
}

/// Returns true if `text` may be what a run writes into metrics.jsonl before its first step.
bool is_before_first_step(std::string_view text) {
    constexpr std::string_view begin = "{\"kind\":\"";
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n')), start = line.substr(0, begin.size());
        if (start != begin.substr(0, start.size())) return false;  // a killed run may leave half a line
        if (line.find("\"kind\":\"train\"") != std::string_view::npos) return false;
        text.remove_prefix(std::min(text.size(), line.size() + 1));
    }
    return true;
}

}  // namespace

void remove_leftovers(const RunFiles& files) {
    const HeldFolder run = files.run();
    remove_half_written(run);
    if (const std::optional<HeldFolder> checkpoints = files.checkpoints_if_any()) remove_half_written(*checkpoints);
    remove_reports(run);
}

bool has_files_of_run(const HeldFolder& run) {
    return std::any_of(files_of_a_run.begin(), files_of_a_run.end(),
                       [&](std::string_view name) { return run.has(std::string(name)); });
}

bool has_steps(const RunFiles& files) {
    const HeldFolder run = files.run();
    for (const char* model : {"model.h5", best_model_name})
        if (is_there(run.path(model))) return true;
    if (const std::optional<HeldFolder> checkpoints = files.checkpoints_if_any())
        for (const std::string& name : checkpoints_in(*checkpoints))
            if (step_of_checkpoint(name) != 0) return true;
    if (run.has("metrics.png")) return true;
    try {
        const InputBytes file({run, "metrics.jsonl"});
        if (file.size() > most_bytes_before_steps) return true;
        std::string text(size_t(file.size()), '\0');
        file.read(0, file.size(), text.data());
        return !is_before_first_step(text) || (text.empty() && run.has("metrics.h5"));
    } catch (const Error&) {
        return true;  // unknown, so it may have steps
    }
}

void remove_run(const RunFiles& files) {
    const HeldFolder run = files.run();
    // Removes checkpoints first, so that no run can resume from the rest if a later removal fails.
    if (const std::optional<HeldFolder> checkpoints = files.checkpoints_if_any()) {
        std::error_code unknown;
        for (const std::string& name : checkpoints->names(unknown))
            if (is_of_checkpoint(name)) remove_or_fail(*checkpoints, name);
        // Fails, and so keeps the folder, if it holds other files or is a link.
        ::unlinkat(run.fd(), "checkpoints", AT_REMOVEDIR);
    }
    for (const std::string_view name : files_of_a_run) remove_or_fail(run, std::string(name));
}

std::string warning_of_owner(const HeldFolder& run, const std::string& option) {
    struct stat status{};
    if (::fstat(run.fd(), &status) != 0) return "";
    if (status.st_uid != ::geteuid())
        return run.shown() +
               formatted(
                   ": belongs to another user (uid %u), who can change what this run writes and reads there; "
                   "choose another %s unless you share it",
                   unsigned(status.st_uid), option.c_str());
    if ((status.st_mode & S_IWOTH) != 0)
        return run.shown() +
               ": every user of this machine can change what this run writes and reads there; chmod o-w it, "
               "or choose another " +
               option;
    return "";
}

std::string warning_of_parent(const HeldFolder& run) {
    struct stat status{};
    if (::fstatat(run.fd(), "..", &status, 0) != 0) return "";
    if (is_another_person(status.st_uid))
        return run.shown() + formatted(
                                 ": the folder above belongs to another user (uid %u), who can rename it, and put "
                                 "another folder in its place; choose another --output unless you share it",
                                 unsigned(status.st_uid));
    const bool open_to_all = (status.st_mode & S_IWOTH) != 0;
    if (!open_to_all || (status.st_mode & S_ISVTX) != 0) return "";
    return run.shown() + ": every user of this machine can rename it, and put another folder in its place; chmod +t " +
           shell_word(std::filesystem::path(run.real_path()).parent_path().string()) + ", or choose another --output";
}

}  // namespace convoy
