// GNU OpenMP spins for milliseconds unless it is told otherwise. On a shared core a thread then
// spins away the time that the thread it waits for needs. tests/RESULTS.md has the measurement from
// which the number of turns comes.
#include "base/waiting.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <string>

namespace convoy {
namespace {

constexpr const char* turns = "10000";  // a fraction of a millisecond

/// A debugger would see another program start, and valgrind would lose this one.
bool watched() {
    const char* preloaded = std::getenv("LD_PRELOAD");
    if (preloaded && std::string(preloaded).find("vgpreload") != std::string::npos) return true;
    std::ifstream status("/proc/self/status");
    const std::string key = "TracerPid:";
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(key)) return std::atoi(line.c_str() + key.size()) != 0;
    return false;
}

}  // namespace

void wait_briefly(char** argv) {
    for (const char* said : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
        if (std::getenv(said)) return;
    char path[PATH_MAX];
    // by its own name, so that ps shows that
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || watched()) return;
    path[length] = '\0';
    const std::string program = std::string(path).substr(std::string(path).rfind('/') + 1);
    // started by them: it would start them anew
    if (program.starts_with("ld") || program.starts_with("qemu")) return;
    ::setenv("GOMP_SPINCOUNT", turns, 1);
    ::execv(path, argv);
    // The file may be gone since: then OpenMP waits as it does by itself.
}

}  // namespace convoy
