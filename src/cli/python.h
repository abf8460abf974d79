// Finds a Python for Convoy's own scripts, and runs it so that it imports nothing from the current
// folder.
#pragma once
#include <string>
#include <vector>

namespace convoy {

/// Returns the first Python that has all modules that src/plot/plot.py imports. Tries only $PYTHON
/// if that is set, else python3 in PATH and /usr/bin/python3. Throws Exit::usage, naming the file
/// `requirements`, if there is none.
std::string python_for_plots(const std::string& requirements);

/// Runs a program by its path. Returns its exit code, 128 + the signal that ended it, or 127 if it
/// cannot be started. If this process dies, the program is terminated. `input`: a descriptor that
/// it reads as stdin; -1: it has this process's.
int run_python(const std::vector<std::string>& words, int input = -1);

}  // namespace convoy
