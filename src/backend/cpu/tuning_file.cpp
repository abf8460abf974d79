#include "backend/cpu/tuning_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/cache_folder.h"
#include "base/durable.h"
#include "base/error.h"

namespace convoy::cpu {

TuningFile::TuningFile(const std::string& kind) {
    const std::string folder = cache_folder();
    if (folder.empty()) return;
    std::string name = kind;
    std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '.'; }, '-');
    try {
        std::filesystem::create_directories(folder);
        file_ = open_to_write(folder + "/convolutions-1-" + name + ".txt", O_RDWR | O_CREAT | O_APPEND);
        if (is_cache_file(file_)) return;
        ::close(file_);
        file_ = -1;
    } catch (const std::exception&) {
        file_ = -1;
    }
}

TuningFile::~TuningFile() {
    if (file_ >= 0) ::close(file_);
}

bool TuningFile::lock() {
    using namespace std::chrono;
    const auto end = steady_clock::now() + seconds(1);
    while (!lock_file(file_)) {
        if (steady_clock::now() > end) return false;
        std::this_thread::sleep_for(milliseconds(20));
    }
    return true;
}

std::string TuningFile::read() const {
    const std::string text = text_of_cache(file_);
    return text.substr(0, text.rfind('\n') + 1);  // the last line may be cut off, because a disk was full
}

bool TuningFile::append(const std::string& lines) {
    const off_t end = ::lseek(file_, 0, SEEK_END);
    if (write_all(file_, lines.data(), lines.size())) return true;
    (void)!::ftruncate(file_, end);  // half a line would be useless
    return false;
}

}  // namespace convoy::cpu
