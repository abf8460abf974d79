#include "backend/cuda/trial_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "base/durable.h"
#include "base/error.h"

namespace convoy::cuda {
namespace fs = std::filesystem;
namespace {

constexpr size_t most_bytes = 4096;  // of the file: a key and an engine's name
constexpr const char* between = " = ";

std::string host() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "host";
}

}  // namespace

TrialLog::TrialLog(const std::string& path) {
    if (path.empty()) return;
    const std::string all = path + ".trying-" + host() + "-";
    own_ = all + std::to_string(::getpid());
    std::error_code none_there;
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(path).parent_path(), none_there))
        if (entry.path().string().starts_with(all)) read(entry.path());
}

TrialLog::~TrialLog() {
    if (file_ < 0) return;
    if (!trying_) ::unlink(own_.c_str());
    ::close(file_);
}

void TrialLog::read(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return;
    char text[most_bytes];
    const ssize_t bytes = lock_file(file) ? ::pread(file, text, sizeof text, 0) : 0;
    ::close(file);
    const std::string line(text, bytes > 0 ? size_t(bytes) : 0);
    const size_t split = line.find(between);
    if (split == std::string::npos) return;
    const std::string key = line.substr(0, split), engine = line.substr(split + std::string(between).size());
    ended_.insert({key, engine});
    notes_.insert(printable("cuDNN's engine " + engine + " is not tried for '" + key +
                            "', because a process ended while it ran; remove " + path + " to try it again"));
}

void TrialLog::begin(const std::string& key, const std::string& engine) {
    if (own_.empty()) return;
    if (file_ < 0) try {
            make_folder_of(own_);
            file_ = open_to_write(own_, O_RDWR);
            lock_file(file_);
        } catch (const Error&) {
            own_.clear();
            return;
        }
    trying_ = true;
    const std::string line = key + between + engine;
    if (::pwrite(file_, line.data(), line.size(), 0) != ssize_t(line.size())) end();
}

void TrialLog::end() {
    trying_ = false;
    if (file_ >= 0 && ::ftruncate(file_, 0) != 0) ::unlink(own_.c_str());
}

}  // namespace convoy::cuda
