// GNU OpenMP spins for milliseconds by default. On a shared core a spinning thread uses up the time
// of the thread that it waits for. The number of turns comes from a measurement in
// tests/RESULTS.md.
#include "base/waiting.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <string>

namespace convoy {
namespace {

constexpr const char* turns = "10000";  // a fraction of a millisecond

/// Returns true under a debugger, which would see another program start, or under valgrind, which
/// would lose track of this one.
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
    // the executable's real path, so that ps shows its name and not "exe"
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || watched()) return;
    path[length] = '\0';
    const std::string program = std::string(path).substr(std::string(path).rfind('/') + 1);
    // a loader or emulator started this program: execv would start that instead
    if (program.starts_with("ld") || program.starts_with("qemu")) return;
    ::setenv("GOMP_SPINCOUNT", turns, 1);
    ::execv(path, argv);
    // execv failed, for example because the file was removed: OpenMP then waits as by default
}

}  // namespace convoy
