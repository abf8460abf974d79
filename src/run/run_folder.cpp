#include "run/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/durable.h"
#include "base/file_error.h"
#include "base/folder.h"
#include "base/held_file.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "run/metrics_file.h"
#include "run/run_leftovers.h"

namespace convoy {
namespace fs = std::filesystem;
using namespace std::string_literals;

std::string default_run_folder(const std::string& model) {
    const std::time_t t = std::time(nullptr);
    char stamp[32];
    std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", std::localtime(&t));
    return "output/" + model + "-" + stamp;
}

namespace {

[[noreturn]] void fail_to_make(const std::string& path, const std::error_code& error,
                               const std::string& option = "--output") {
    fail(Exit::io, path + ": cannot be created: " + (error ? error.message() : "a file of that name exists") +
                       "; choose another " + option);
}
[[noreturn]] void fail_as_busy(const std::string& path) {
    fail(Exit::usage, path + ": another run is writing there; choose another --output");
}

void warn(const std::string& message) {
    if (!message.empty()) std::fprintf(stderr, "warning: %s\n", printable(message).c_str());
}

/// Returns true if there is a run that will be overwritten. Throws Exit::usage if there is a run
/// that is neither overwritten nor resumed.
bool replaces_run(const RunFiles& files, bool resume, bool overwrite) {
    const HeldFolder run = files.run();
    const std::optional<HeldFolder> checkpoints = files.checkpoints_if_any();
    const bool used = has_files_of_run(run) || (checkpoints && !checkpoints_in(*checkpoints).empty());
    if (!used || resume) return false;
    if (!overwrite && has_steps(files))
        fail(Exit::usage, files.path() +
                              " already holds a run; choose another --output, or continue it with --resume auto "
                              "(--overwrite would delete it)");
    return true;
}

/// Returns `path` or its nearest parent that exists, or whose existence cannot be determined.
std::string nearest_folder(const std::string& path) {
    std::error_code error;
    fs::path nearest = fs::absolute(path, error);
    while (fs::symlink_status(nearest, error).type() == fs::file_type::not_found && nearest != nearest.parent_path())
        nearest = nearest.parent_path();
    return nearest;
}

/// Checks existing files that a run will replace. A folder, or another user's file, would otherwise
/// end the run only after its last step.
void check_can_replace(const std::string& path) {
    for (const char* file : {"metrics.h5", "metrics.jsonl", "model.h5", "model-best.h5"})
        for (const char* ending : {"", ".partial"}) {
            std::error_code error;
            const std::string name = path + "/" + file + ending;
            if (fs::symlink_status(name, error).type() == fs::file_type::directory)
                fail(Exit::io, name + ": is a folder, where the run writes a file; move it away");
        }
    const std::string lines = path + "/metrics.jsonl";
    const Descriptor file(::open(lines.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid() && errno != ENOENT) cannot_write(lines);
    if (!file.valid()) return;
    struct stat status{};
    const bool plain = ::fstat(file.fd(), &status) == 0 && S_ISREG(status.st_mode);
    if (!plain) fail(Exit::io, lines + ": is a pipe or a device, where the run writes a file; move it away");
}

/// Makes and removes a folder in `folder`, because permission bits do not show read-only file
/// systems, access lists and quotas.
void check_can_create(const std::string& folder, const std::string& path, const std::string& option) {
    std::string trial = folder + "/.convoy-XXXXXX";
    if (!::mkdtemp(trial.data())) fail_to_make(path, {errno, std::generic_category()}, option);
    ::rmdir(trial.c_str());
}

}  // namespace

std::string make_run_folder(const std::string& path) {
    make_folder_of(path);
    for (int64_t n = 1;; ++n) {
        const std::string name = n == 1 ? path : path + "-" + std::to_string(n);
        if (::mkdir(name.c_str(), 0777) == 0) return name;
        if (errno != EEXIST) fail_to_make(name, {errno, std::generic_category()});
    }
}

RunFolder::RunFolder(const std::string& path, bool resume, bool overwrite) : files_(path) {
    std::error_code error, unseen;
    fs::create_directories(path, error);
    if (!fs::is_directory(path, unseen)) fail_to_make(path, error ? error : unseen);
    const HeldFolder run = files_.run();
    for (const std::string& note : files_.notes()) warn(note);
    warn(warning_of_owner(run));
    if (const std::optional<HeldFolder> checkpoints = files_.checkpoints_if_any()) warn(warning_of_owner(*checkpoints));
    warn(warning_of_parent(run));
    lock_ = open_lock(run, "lock");
    if (!lock_file(lock_.fd())) fail_as_busy(path);
    if (errno != 0)
        warn(path + ": " + why_unlocked(errno) + ", so a second run there would not be refused; start none");
    files_.claim_checkpoints();
    remove_leftovers(files_);
    if (!replaces_run(files_, resume, overwrite)) return;
    if (!overwrite) warn(path + ": replaces a run that was ended before its first step");
    remove_run(files_);
}

void check_folder(const std::string& path, const std::string& option) {
    std::error_code error;
    const std::string nearest = nearest_folder(path);
    // `nearest` is "" if the current folder was removed.
    if (!fs::status_known(fs::status(nearest, error)) || nearest.empty()) fail_to_make(path, error, option);
    if (!fs::is_directory(nearest, error)) fail_to_make(path, std::make_error_code(std::errc::not_a_directory), option);
    check_can_create(nearest, path, option);
}

void check_can_write(const std::string& path) {
    if (std::error_code unseen; fs::is_directory(path, unseen)) RunFiles(path).run();  // throws for bad links
    check_folder(path, "--output");
    for (const std::string& folder : {path, path + "/checkpoints"}) try {
            const std::string place = nearest_folder(folder);
            if (folder == path || place != nearest_folder(path))
                estimated_seconds(HeldFolder(place, HeldFolder::IfLink::follow), 0);
        } catch (const Error& refused) {
            fail(Exit::io, folder + ": a trial checkpoint cannot be written there: " + refused.what() +
                               "; or choose another --output");
        }
    check_can_replace(path);
}

void check_run_folder(const std::string& path, bool resume, bool overwrite) {
    if (!is_there(path)) return;
    const RunFiles files(path);
    const Descriptor file(::openat(files.run().fd(), "lock", O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.valid() && errno != ENOENT) cannot_write(path + "/lock");
    struct flock whole{};
    whole.l_type = F_WRLCK;
    // Queries the lock without taking it.
    const bool busy = file.valid() && ::fcntl(file.fd(), F_OFD_GETLK, &whole) == 0 && whole.l_type == F_WRLCK;
    if (busy) fail_as_busy(path);
    replaces_run(files, resume, overwrite);
}

bool is_within(const std::string& file, const std::string& folder) {
    std::error_code error;
    const fs::path inner = fs::weakly_canonical(file, error), outer = fs::weakly_canonical(folder, error);
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

namespace {

/// Throws for checkpoint `i` of `paths` (newest first), which cannot be opened. An older one is not
/// used instead, because this one may be intact.
[[noreturn]] void fail_as_inaccessible(const std::vector<std::string>& paths, size_t i, const Inaccessible& reason) {
    const bool others = i + 1 < paths.size();
    throw Inaccessible(reason.what() +
                       (others ? "; or resume from an older checkpoint: --resume " + shell_word(paths[i + 1])
                               : "; no older checkpoint is left"s));
}

}  // namespace

std::optional<ResumePoint> newest_checkpoint(const RunFiles& files, const State& state, const Identity& identity) {
    const std::optional<HeldFolder> folder = files.checkpoints_if_any();
    if (!folder) return std::nullopt;
    const std::vector<std::string> names = checkpoints_in(*folder);
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(folder->shown(name));
    for (size_t i = 0; i < paths.size(); ++i) try {
            check_has_one_name(*folder, names[i]);
            return ResumePoint{folder->named([&] { return read_checkpoint(folder->path(names[i]), state, identity); }),
                               paths[i]};
        } catch (const Inaccessible& reason) {
            fail_as_inaccessible(paths, i, reason);
        } catch (const Error& damage) {
            if (damage.code != Exit::bad_input) throw;
            std::fprintf(stderr, "warning: %s; trying the checkpoint before it\n", damage.what());
        }
    if (!paths.empty())
        fail(Exit::bad_input,
             files.path() + "/checkpoints: none of the " + std::to_string(paths.size()) +
                 " checkpoints is sound; start from the beginning in another --output, or name a checkpoint in "
                 "another folder: --resume FILE");
    return std::nullopt;
}

std::optional<ResumePoint> find_resume_point(const RunPlace& place, const RunFiles& files, const State& state,
                                             const Identity& identity, int64_t total_steps) {
    std::optional<ResumePoint> resume;
    if (!place.checkpoint.empty())
        resume = ResumePoint{read_checkpoint(place.checkpoint, state, identity), place.checkpoint};
    else if (place.continues)
        resume = newest_checkpoint(files, state, identity);
    if (!resume && place.continues)
        for (const std::string& model : {place.folder + "/model.h5", best_model_path(place.folder)})
            if (is_there(model))
                fail(Exit::bad_input, model +
                                          ": is there, but no checkpoint to resume from: put the folder checkpoints "
                                          "back (--keep 0 and --checkpoint-every none leave none), or start from "
                                          "the beginning in another --output");
    if (resume && resume->checkpoint.step > total_steps)
        fail(Exit::usage, resume->path + ": was taken after step " + std::to_string(resume->checkpoint.step) +
                              ", but this run ends at step " + std::to_string(total_steps) +
                              "; raise --epochs or --max-steps, or resume from an earlier checkpoint");
    return resume;
}

void check_metrics(const RunPlace& place) {
    const std::string path = place.folder + "/metrics.h5";
    std::error_code error;
    if (!place.continues || fs::symlink_status(path, error).type() == fs::file_type::not_found) return;
    try {
        read_metrics(path);
    } catch (const Inaccessible&) {
        throw;
    } catch (const Error& damage) {
        fail(damage.code,
             std::string(damage.what()) +
                 "; or move it away: the run then continues without its rows, which metrics.jsonl has too");
    }
}

/// Returns the result of `read` for the newest checkpoint that it can read.
template <class Read> static auto read_ahead(const RunPlace& place, Read read) {
    std::vector<std::string> paths;
    if (!place.checkpoint.empty())
        paths = {place.checkpoint};
    else if (place.continues)
        paths = checkpoints_of(place.folder);
    for (size_t i = 0; i < paths.size(); ++i) try {
            return read(paths[i]);
        } catch (const Inaccessible& reason) {
            if (!place.checkpoint.empty()) throw;
            fail_as_inaccessible(paths, i, reason);
        } catch (const Error&) {  // find_resume_point() will report what is wrong
        }
    return decltype(read(paths[0])){};
}

Identity identity_to_resume(const RunPlace& place) { return read_ahead(place, read_identity); }

std::string configuration_to_resume(const RunPlace& place) { return read_ahead(place, read_configuration); }

std::string tuning_to_resume(const RunPlace& place) { return read_ahead(place, read_tuning); }

/// Renames a model that may come from an evaluation after the resume point. Returns a note.
static std::string set_model_aside(const HeldPlace& model) {
    const std::string aside = model.name() + ".old";
    if (const std::error_code error = model.folder().rename(model.name(), aside))
        return model.shown() + ": cannot be renamed: " + error.message();
    return "its checkpoint is gone, and the earlier file is now " + model.folder().shown(aside);
}

std::string renew_best_model(const RunFiles& files, const ResumePoint& resume, bool branched, const State& state,
                             const Identity& identity) {
    const Checkpoint& here = resume.checkpoint;
    const HeldPlace model = files.place(best_model_name);
    const bool there = model.folder().has(model.name());
    if (!here.is_best() && !branched && there) return "";
    const std::string best = checkpoint_name(here.best_step);
    try {
        std::optional<HeldFolder> folder = files.checkpoints_if_any();
        // If the run was branched from another folder, the best checkpoint is there.
        if (const fs::path elsewhere = fs::path(resume.path).parent_path().parent_path() / "checkpoints";
            (!folder || !folder->has(best)) && is_there(elsewhere / best))
            folder = HeldFolder(elsewhere, HeldFolder::IfLink::follow);
        if (here.is_best()) {
            save_model(model, here, state);
        } else if (here.best_accuracy >= 0 && folder && folder->has(best)) {
            check_has_one_name(*folder, best);
            save_model(model, folder->named([&] { return read_checkpoint(folder->path(best), state, identity); }),
                       state);
        } else if (there) {
            return set_model_aside(model);
        }
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

void check_room(const std::string& folder, size_t bytes, const std::string& what_for) {
    std::error_code error;
    fs::path place = fs::absolute(folder, error);
    while (!fs::exists(place, error) && place.has_parent_path() && place != place.parent_path())
        place = place.parent_path();
    if (fs::is_directory(place, error) && ::access(place.c_str(), W_OK | X_OK) != 0)
        fail(Exit::io, place.string() + ": cannot be written: " + std::strerror(errno) + "; choose another --output");
    fs::space_info space = fs::space(place, error);
    if (error) return;
    // Counts the files of the resumed or replaced run as available.
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (std::error_code unseen; entry->is_regular_file(unseen)) space.available += entry->file_size(unseen);
    if (space.available < bytes)
        fail(Exit::io, folder + formatted(": needs %.1f MiB for ", double(bytes) / (1 << 20)) + what_for +
                           formatted(", but %.1f MiB are free there; free space, lower --keep, or choose another "
                                     "--output",
                                     double(space.available) / (1 << 20)));
}

}  // namespace convoy
