#include "train/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <mutex>

#include "base/durable.h"
#include "base/file_error.h"
#include "base/folder.h"
#include "base/shell_word.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr const char* checkpoints_name = "checkpoints";
constexpr const char* owner_name = "run.txt";  // in a linked checkpoints folder: the path of its run

bool is_link(const std::string& path) {
    std::error_code unknown;
    return fs::is_symlink(path, unknown);
}

/// Looks into the open run folder, because another folder may have its path meanwhile.
bool has_linked_checkpoints(const HeldFolder& run) {
    struct stat about{};
    return ::fstatat(run.fd(), checkpoints_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(about.st_mode);
}

bool is_same(const HeldFolder& a, const HeldFolder& b) {
    struct stat of_a{}, of_b{};
    return ::fstat(a.fd(), &of_a) == 0 && ::fstat(b.fd(), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

/// Throws if the checkpoints folder is another run's folder, or lies in one.
void check_is_no_other_run(const HeldFolder& run, const HeldFolder& checkpoints) {
    const HeldFolder above(checkpoints, "..");
    for (const HeldFolder* other : {&checkpoints, &above})
        if (!is_same(*other, run) && (other->has("metrics.h5") || other->has("metrics.jsonl")))
            fail(Exit::io, checkpoints.shown() + ": is a link into another run, " + other->real_path() +
                               ", whose checkpoints this one would replace; choose another --output, or put a folder "
                               "in the link's place");
}

/// Returns the first line of a small file; empty if it cannot be read.
std::string line_of(const HeldFolder& folder, const std::string& name) {
    const Descriptor file = folder.open_existing(name, O_RDONLY | O_NONBLOCK);
    char text[PATH_MAX + 1];
    const ssize_t bytes = ::read(file.fd(), text, sizeof text);
    const std::string line(text, size_t(std::max<ssize_t>(bytes, 0)));
    return line.substr(0, line.find('\n'));
}

/// Throws if a folder names another run, or names none but is not empty. A run removes leftovers
/// there. In a run folder from another person, `checkpoints` may be a link to any folder.
void check_is_of_this_run(const HeldFolder& run, const HeldFolder& checkpoints) {
    std::error_code error;
    const std::vector<std::string> names = checkpoints.names(error);
    const bool is_named = checkpoints.has(owner_name);
    if (!is_named && !error && names.empty()) return;
    const std::string owner = is_named ? line_of(checkpoints, owner_name) : "an unknown run", own = run.real_path();
    if (is_named && owner == own) return;
    const std::string link = has_linked_checkpoints(run) ? "is a link to " + checkpoints.real_path() + ", which " : "";
    fail(Exit::io, checkpoints.shown() + ": " + link + "is for checkpoints of " + owner +
                       "; choose another --output, or if they are this run's: echo " + shell_word(own) + " > " +
                       shell_word(checkpoints.real_path() + "/" + owner_name));
}

/// Notes in a linked folder whose checkpoints it holds. Throws if it is for another run.
void claim(const HeldFolder& run, const HeldFolder& checkpoints) {
    check_is_of_this_run(run, checkpoints);
    if (checkpoints.has(owner_name)) return;
    const std::string line = run.real_path() + "\n";
    const Descriptor file = checkpoints.open_new(owner_name);
    if (!write_all(file.fd(), line.data(), line.size())) cannot_write(checkpoints.shown(owner_name));
}

[[noreturn]] void fail_as_replaced(const HeldFolder& folder) {
    fail(Exit::io, folder.shown() + ": was removed, and another folder is in its place; move that away");
}

/// Throws if a folder that was just made is not empty, because then another one replaced it.
void check_is_empty(const HeldFolder& folder) {
    std::error_code error;
    if (!folder.names(error).empty() || error) fail_as_replaced(folder);
}

/// Throws if a folder belongs to another user, or others may write to it.
void check_is_own(const HeldFolder& folder) {
    struct stat about{};
    const bool known = ::fstat(folder.fd(), &about) == 0;
    if (!known || about.st_uid != ::geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) fail_as_replaced(folder);
}

}  // namespace

struct RunFiles::Folders {
    explicit Folders(std::string folder) : path(std::move(folder)) {}

    void open_run() {
        if (run && !run->was_removed()) return;
        run.reset();
        checkpoints.reset();
        std::error_code shows_when_it_is_opened;
        fs::create_directories(fs::path(path).parent_path(), shows_when_it_is_opened);
        const bool made = ::mkdir(path.c_str(), S_IRWXU | S_IRWXG | S_IRWXO) == 0;
        HeldFolder opened(path, HeldFolder::IfLink::follow_own);
        if (was_open) check_is_empty(opened);
        if (was_open && !made) check_is_own(opened);
        if (!was_open && opened.has(checkpoints_name)) open_checkpoints(opened);
        run = std::move(opened);
        was_open = true;
    }
    /// Opens RUN/checkpoints. Leaves it closed if that fails, because not every run needs it.
    void open_checkpoints(const HeldFolder& in) {
        struct stat about{};
        if (::fstatat(in.fd(), checkpoints_name, &about, 0) != 0 || !S_ISDIR(about.st_mode)) return;
        HeldFolder opened(in, checkpoints_name, HeldFolder::IfLink::follow_own);
        check_is_no_other_run(in, opened);
        if (has_linked_checkpoints(in) || opened.has(owner_name)) check_is_of_this_run(in, opened);
        checkpoints = std::move(opened);
    }
    bool has_checkpoints() const { return checkpoints && !checkpoints->was_removed(); }
    void make_checkpoints() {
        open_run();
        if (has_checkpoints()) {
            if (has_linked_checkpoints(*run)) claim(*run, *checkpoints);
            return;
        }
        run->make_folder(checkpoints_name);
        HeldFolder made(*run, checkpoints_name);
        check_is_empty(made);
        checkpoints = std::move(made);
    }

    const std::string path;
    std::mutex mutex;  // guards the rest
    std::optional<HeldFolder> run, checkpoints;
    bool was_open = false;  // the run folder
    bool run_has_moved = false, checkpoints_have_moved = false;
};

RunFiles::RunFiles(const std::string& run_dir) : folders_(std::make_shared<Folders>(without_slashes(run_dir))) {}

const std::string& RunFiles::path() const { return folders_->path; }

HeldFolder RunFiles::run() const {
    const std::lock_guard lock(folders_->mutex);
    folders_->open_run();
    return *folders_->run;
}

HeldFolder RunFiles::checkpoints() const {
    const std::lock_guard lock(folders_->mutex);
    folders_->make_checkpoints();
    return *folders_->checkpoints;
}

void RunFiles::claim_checkpoints() const {
    const std::lock_guard lock(folders_->mutex);
    if (folders_->has_checkpoints()) folders_->make_checkpoints();
}

std::optional<HeldFolder> RunFiles::checkpoints_if_any() const {
    const std::lock_guard lock(folders_->mutex);
    if (!folders_->run && !is_there(path())) return std::nullopt;
    folders_->open_run();
    if (folders_->has_checkpoints()) return folders_->checkpoints;
    // A link without a target is an error, because its file system may not be mounted.
    if (folders_->run->has(checkpoints_name))
        files_in(path() + "/" + checkpoints_name, "check the run folder, and where links lead");
    return std::nullopt;
}

std::vector<std::string> RunFiles::notes() const {
    const std::lock_guard lock(folders_->mutex);
    std::vector<std::string> notes;
    const std::optional<HeldFolder>&run = folders_->run, &checkpoints = folders_->checkpoints;
    if (run && is_link(run->shown()))
        notes.push_back(run->shown() + ": is a link: the run is written in " + run->real_path());
    if (checkpoints && has_linked_checkpoints(*run))
        notes.push_back(checkpoints->shown() + ": is a link: checkpoints are written and removed in " +
                        checkpoints->real_path());
    return notes;
}

std::vector<std::string> RunFiles::moved() const {
    const std::lock_guard lock(folders_->mutex);
    std::vector<std::string> lines;
    const auto look = [&](const std::optional<HeldFolder>& folder, bool& named) {
        if (named || !folder || folder->was_removed() || folder->is_still_at_its_path()) return;
        named = true;
        lines.push_back(folder->shown() +
                        ": was moved or exchanged while the run writes; its files go into the "
                        "folder that was opened at the start, which is " +
                        folder->real_path() + " now");
    };
    look(folders_->run, folders_->run_has_moved);
    if (!folders_->run_has_moved) look(folders_->checkpoints, folders_->checkpoints_have_moved);
    return lines;
}

}  // namespace convoy
