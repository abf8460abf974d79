// A Python for Convoy's own scripts: found, and run so that nothing of the current folder runs.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Returns the first Python that can import all that src/plot/plot.py does: $PYTHON if that is set,
/// else python3 in PATH or /usr/bin/python3. Throws Exit::usage if there is none; its message names
/// the file `requirements`.
std::string python_for_plots(const std::string& requirements);

/// Runs a program by its path. Returns its exit code, 128 + the signal that ended it, or 127 if it
/// cannot be started. It is terminated when this process dies. `input`: a descriptor that it reads
/// as stdin; -1: this process's.
int run_python(const std::vector<std::string>& words, int input = -1);

}  // namespace convoy
