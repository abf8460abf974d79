// Helpers of many tests: folders that clean up after themselves, whole files as strings, commands
// with their output, and the Error that an action throws.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace convoy::test {

/// A fresh folder, removed with its content at the end of the scope.
class TempDir {
public:
    TempDir();
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }

private:
    std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

/// A finished command: `code` is its exit code, or 128 + the signal that ended it.
struct Finished {
    int code = -1;
    std::string out, err;
};
/// Runs `command` with bash.
Finished run(const std::string& command);

/// Returns true if the tests run in their long form, `make test-faults`: more kills, signals and
/// damaged files.
bool long_form();
/// Returns the path of the executable `name` beside the running test program, for example
/// build/convoy.
std::string sibling(const std::string& name);
/// Returns true if the CUDA backend of this program runs over the emulated device: build/emulated/.
bool is_emulated();

/// Runs `action`, which must throw Error with this code and a one-line message that holds every one
/// of `words`. Returns the problem; empty if there is none: EXPECT_EQ("", problem_of_error(…)).
std::string problem_of_error(Exit code, const std::vector<std::string>& words, const std::function<void()>& action);

}  // namespace convoy::test
