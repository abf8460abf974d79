// Runs another program in the foreground: the program has the terminal, and gets the signals that
// ask this process to end.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Returns the absolute entries of a list of folders, such as PATH. The other entries are relative
/// to the current folder, and are left out.
std::vector<std::string> absolute_entries(const std::string& list);
/// Returns the path of a program that is in an absolute folder of PATH; empty if there is none.
/// Returns a name with a slash unchanged.
std::string program(const std::string& name);

/// While this object lives, signals that ask for an end (SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2,
/// SIGXCPU) do not end this process, but the program that it runs. The program gets a Ctrl-C from
/// the terminal; other signals are passed on. Only one such object may exist at a time.
class ChildSignals {
public:
    ChildSignals();
    ~ChildSignals();
    ChildSignals(const ChildSignals&) = delete;
    /// Returns the first signal that came; 0: none.
    int received() const;

    /// Runs a program to its end. Finds it as a shell does. Returns its exit code, 128 + the signal
    /// that ended it, or 127 if it cannot be started. If this process ends, the program is
    /// terminated. `output`: a descriptor that gets its stdout and stderr; -1: it has those of this
    /// process. `file`: the program, if its first word is not its path.
    int run(const std::vector<std::string>& words, int output = -1, const std::string& file = "");
};

}  // namespace convoy
