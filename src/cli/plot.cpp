// convoy plot: draws runs with output/plot.py, by a Python that has what the script imports.
// The python3 that comes first in PATH is often not the one that `make deps` filled (pyenv, conda).
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/project.h"
#include "base/shell_word.h"
#include "cli/commands.h"

namespace convoy {
namespace {

constexpr const char* script = "output/plot.py";
/// Looks for the modules, which takes a tenth of the time that importing them does.
constexpr const char* has_all =
    "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in ('h5py', 'matplotlib', 'numpy')))";
constexpr const char* usage =
    "usage: convoy plot RUN... [--out FILE.png] [--title TEXT]\n"
    "       convoy plot RUN RUN --difference [--out FILE.png] [--title TEXT]\n"
    "       convoy report --scaling --format json RUN... | convoy plot --scaling - [--out FILE.png] [--title TEXT]\n"
    "Draws the curves of runs, which may still go on, or how runs scale. It takes $PYTHON if that is set, else python3 "
    "or\n"
    "/usr/bin/python3, whichever has h5py, matplotlib and numpy.\n";

/// Runs a program that is looked for in PATH. Returns its exit code, 128 + the signal that ended
/// it, or 127 if it cannot be started. `input`: a descriptor that it reads as stdin; -1: this
/// one's.
int run(const std::vector<std::string>& words, bool silent, int input = -1) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int descriptor = 0; silent && descriptor <= 2; ++descriptor)
        posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0);
    if (input >= 0) posix_spawn_file_actions_adddup2(&actions, input, 0);
    pid_t child = 0;
    const int problem = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    if (problem != 0) return 127;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The first Python that can import all that the script does.
/// What the user names is taken, or refused, but never replaced.
std::string python_for(const std::string& requirements) {
    const char* named = std::getenv("PYTHON");
    std::vector<std::string> candidates = {"python3", "/usr/bin/python3"};
    if (named && *named) candidates = {named};
    std::string tried;
    for (const std::string& python : candidates) {
        if (run({python, "-c", has_all}, true) == 0) return python;
        tried += (tried.empty() ? "" : " and ") + python;
    }
    fail(Exit::usage, "plot: " + tried + " cannot import h5py, matplotlib and numpy; " + shell_word(candidates[0]) +
                          " -m pip install -r " + shell_word(requirements) +
                          " (Debian: apt install python3-h5py python3-matplotlib), or name a Python that has them: "
                          "PYTHON=/path/to/python");
}

/// The script and the Python that runs it.
std::vector<std::string> command_of_plot() {
    const std::string path = project_file(script);
    if (path.empty())
        fail(Exit::bad_input,
             std::string(script) + " is neither next to the executable's folder nor here; start it in Convoy's folder");
    const std::string folder = path.substr(0, path.rfind('/'));
    return {python_for(folder + "/requirements.txt"), path};
}

}  // namespace

int plot_cells(const std::string& json, const std::string& out) {
    std::vector<std::string> words = command_of_plot();
    words.insert(words.end(), {"--scaling", "-", "--out", out});
    const int input = memfd_create("cells", MFD_CLOEXEC);
    if (input < 0 || write(input, json.data(), json.size()) != ssize_t(json.size()) || lseek(input, 0, SEEK_SET) != 0)
        fail(Exit::io, "plot: no memory for what is to be drawn");
    const int code = run(words, false, input);
    close(input);
    return code;
}

int plot(const std::vector<std::string>& args) {
    if (args.empty()) fail(Exit::usage, "which run? convoy plot RUN..., the folders of runs");
    if (args[0] == "--help") {
        std::fputs(usage, stdout);
        return 0;
    }
    std::vector<std::string> words = command_of_plot();
    words.insert(words.end(), args.begin(), args.end());
    return run(words, false);
}

}  // namespace convoy
