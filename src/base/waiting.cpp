// GNU OpenMP spins for milliseconds by default. On a shared core a spinning thread uses up the time
// of the thread that it waits for. The number of turns comes from a measurement in
// tests/RESULTS.md.
#include "base/waiting.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace convoy {
namespace {

constexpr const char* executable = "/proc/self/exe";
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

/// Returns the path of the executable. Empty if the file was removed or replaced, or if an emulator
/// runs it.
std::string path_of_executable() {
    char path[PATH_MAX];
    const ssize_t length = ::readlink(executable, path, sizeof path - 1);
    if (length <= 0) return "";
    path[length] = '\0';
    struct stat running{}, named{};
    const bool same = ::stat(executable, &running) == 0 && ::stat(path, &named) == 0 &&
                      running.st_dev == named.st_dev && running.st_ino == named.st_ino;
    return same ? path : "";
}

/// Makes ps show `name`. Otherwise it shows "exe", the name of the link that execv() starts below.
void take_name(const std::string& name) {
    char known[16] = {};
    if (::prctl(PR_GET_NAME, known) == 0 && std::strcmp(known, "exe") == 0) ::prctl(PR_SET_NAME, name.c_str());
}

}  // namespace

void wait_briefly(char** argv) {
    const std::string path = path_of_executable(), program = path.substr(path.rfind('/') + 1);
    if (!path.empty()) take_name(program);
    for (const char* said : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
        if (std::getenv(said)) return;
    if (path.empty() || watched()) return;
    // a loader or emulator started this program: execv would start that instead
    if (program.starts_with("ld") || program.starts_with("qemu")) return;
    ::setenv("GOMP_SPINCOUNT", turns, 1);
    // The link leads to the file that runs. Another user may put another file at its path.
    ::execv(executable, argv);
    // execv failed: OpenMP then waits as by default
}

}  // namespace convoy
