// Tries /usr/bin/python3 too, because a python3 of pyenv or conda often lacks the modules.
#include "cli/python.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/shell_word.h"
#include "cli/child.h"

namespace convoy {
namespace {

/// Checks that the modules can be found, which takes a tenth of the time of importing them. Does
/// not look in the current folder, which `python -c` would search first.
constexpr const char* has_all =
    "import sys; sys.path[:] = [p for p in sys.path if p[:1] == '/']; import importlib.util as u; "
    "sys.exit(not all(u.find_spec(m) for m in ('h5py', 'matplotlib', 'numpy')))";

/// Returns this process's environment, without relative entries in PATH and PYTHONPATH.
std::vector<std::string> environment() {
    std::vector<std::string> all;
    for (char** entry = environ; *entry; ++entry) {
        const std::string variable = *entry, key = variable.substr(0, variable.find('=') + 1);
        all.push_back(key == "PATH=" || key == "PYTHONPATH=" ? key : variable);
        if (all.back() == variable) continue;
        for (const std::string& folder : absolute_entries(variable.substr(key.size())))
            all.back() += (all.back() == key ? "" : ":") + folder;
    }
    return all;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> all;
    for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
    all.push_back(nullptr);
    return all;
}

/// Replaces a forked child by the program. Calls only functions that are safe after fork().
[[noreturn]] void become(const std::vector<char*>& arguments, const std::vector<char*>& variables, pid_t parent,
                         int input, bool silent) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    const int nothing = silent ? ::open("/dev/null", O_RDWR) : -1;
    for (int descriptor = 0; silent && descriptor <= 2; ++descriptor) ::dup2(nothing, descriptor);
    if (input >= 0) ::dup2(input, 0);
    ::execve(arguments[0], arguments.data(), variables.data());
    ::_exit(127);
}

int run(const std::vector<std::string>& words, int input, bool silent) {
    const std::vector<std::string> kept = environment();
    const std::vector<char*> arguments = pointers(words), variables = pointers(kept);
    const pid_t parent = ::getpid(), child = ::fork();
    if (child == 0) become(arguments, variables, parent, input, silent);
    int status = 0;
    if (child < 0) return 127;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string python_for_plots(const std::string& requirements) {
    const char* named = std::getenv("PYTHON");
    std::vector<std::string> candidates = {"python3", "/usr/bin/python3"};
    if (named && *named) candidates = {named};  // taken or refused, but never replaced
    std::string tried;
    for (const std::string& candidate : candidates) {
        const std::string path = program(candidate);
        if (!path.empty() && run({path, "-c", has_all}, -1, /*silent=*/true) == 0) return path;
        tried += (tried.empty() ? "" : " and ") + candidate;
    }
    fail(Exit::usage, "plot: " + tried + " cannot import h5py, matplotlib and numpy; " + shell_word(candidates[0]) +
                          " -m pip install -r " + shell_word(requirements) +
                          " (Debian: apt install python3-h5py python3-matplotlib), or name a Python that has them: "
                          "PYTHON=/path/to/python");
}

int run_python(const std::vector<std::string>& words, int input) { return run(words, input, /*silent=*/false); }

}  // namespace convoy
