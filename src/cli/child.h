// Another program, started in this one's place for a while: it has the terminal, and the signals
// that ask for an end.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Returns the absolute entries of a list of folders, such as PATH. All others mean the current
/// folder, or one in it.
std::vector<std::string> absolute_entries(const std::string& list);
/// Returns the path of a program in an absolute folder of PATH; a name with a slash is returned as
/// it is. Empty if there is none.
std::string program(const std::string& name);

/// While this lives, signals that ask for an end (SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2,
/// SIGXCPU) do not end this process but the program that it runs. A Ctrl-C reaches that from the
/// terminal; other signals are passed on. Of these there is one at a time.
class ChildSignals {
public:
    ChildSignals();
    ~ChildSignals();
    ChildSignals(const ChildSignals&) = delete;
    /// The first signal that came; 0: none.
    int received() const;

    /// Runs a program, found as a shell finds it, to its end. Returns its exit code, 128 + the
    /// signal that ended it, or 127 if it cannot be started. The program ends if this process does.
    /// `output`: a descriptor that gets its stdout and stderr; -1: these are this process's.
    int run(const std::vector<std::string>& words, int output = -1);
};

}  // namespace convoy
