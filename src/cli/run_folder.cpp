#include "cli/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>

namespace convoy {
namespace fs = std::filesystem;

std::string default_run_folder(const std::string& model) {
    const std::time_t t = std::time(nullptr);
    char stamp[32];
    std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", std::localtime(&t));
    return "output/" + model + "-" + stamp;
}

RunFolder::RunFolder(const std::string& path, bool resume, bool overwrite) {
    std::error_code error;
    fs::create_directories(path, error);
    if (!fs::is_directory(path))
        fail(Exit::io, path + ": cannot be created: " + (error ? error.message() : "a file of that name exists") + "; choose another --output");
    lock_ = ::open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0) fail(Exit::io, path + ": cannot be written: " + std::strerror(errno) + "; choose another --output");
    struct flock whole {};
    whole.l_type = F_WRLCK;
    if (::fcntl(lock_, F_OFD_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES))
        fail(Exit::usage, path + ": another run is writing there; choose another --output");
    for (const char* folder : {"", "/checkpoints"})  // what a killed run was just writing
        for (const auto& entry : fs::directory_iterator(path + folder, error))
            if (entry.path().extension() == ".partial") fs::remove(entry.path(), error);
    const bool used = fs::exists(path + "/metrics.h5") || !checkpoints_of(path).empty();
    if (!used || resume) return;
    if (!overwrite) fail(Exit::usage, path + " already holds a run; choose another --output, --resume auto, or --overwrite");
    for (const char* file : {"metrics.h5", "metrics.jsonl", "model.h5", "metrics.png"}) fs::remove(path + "/" + file, error);
    fs::remove_all(path + "/checkpoints", error);
}

RunFolder::~RunFolder() {
    if (lock_ >= 0) ::close(lock_);
}

bool is_within(const std::string& file, const std::string& folder) {
    std::error_code error;
    const fs::path inner = fs::weakly_canonical(file, error), outer = fs::weakly_canonical(folder, error);
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

std::optional<ResumePoint> newest_checkpoint(const std::string& run_dir, const State& state, const Identity& identity) {
    const std::vector<std::string> paths = checkpoints_of(run_dir);
    for (const std::string& path : paths) try {
            return ResumePoint{read_checkpoint(path, state, identity), path};
        } catch (const Error& damage) {
            if (damage.code != Exit::bad_input) throw;
            std::fprintf(stderr, "warning: %s; trying the checkpoint before it\n", damage.what());
        }
    if (!paths.empty())
        fail(Exit::bad_input, run_dir + "/checkpoints: none of the " + std::to_string(paths.size()) + " checkpoints can be read; start anew with --resume none --overwrite");
    return std::nullopt;
}

}  // namespace convoy
