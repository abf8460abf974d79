// Implements the helpers shared by tests.
#include "tests/support/support.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace convoy::test {
namespace fs = std::filesystem;

TempDir::TempDir() {
    std::string pattern = (fs::temp_directory_path() / "convoy-test-XXXXXX").string();
    require(mkdtemp(pattern.data()) != nullptr, "a temporary folder can be made");
    path_ = pattern;
}

TempDir::~TempDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    require(bool(in), "a file the test made can be read");
    return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << bytes;
    out.close();
    require(bool(out), "a test can write its files");
}

Finished run(const std::string& command) {
    const TempDir dir;
    write_file(dir.path("command"), command + "\n");
    const int status =
        std::system(("bash " + dir.path("command") + " >" + dir.path("out") + " 2>" + dir.path("err")).c_str());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, read_file(dir.path("out")), read_file(dir.path("err"))};
}

bool long_form() { return std::getenv("CONVOY_LONG") != nullptr; }

std::string sibling(const std::string& name) {
    return (fs::read_symlink("/proc/self/exe").parent_path() / name).string();
}

bool is_emulated() { return fs::path(sibling("convoy")).parent_path().filename() == "emulated"; }

std::string problem_of_error(Exit code, const std::vector<std::string>& words, const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        const std::string text = error.what();
        if (error.code != code) return "exit code " + std::to_string(int(error.code)) + ": " + text;
        if (text.find('\n') != std::string::npos) return "more than one line: " + text;
        for (const std::string& word : words)
            if (text.find(word) == std::string::npos) return "does not say '" + word + "': " + text;
        return "";
    } catch (const std::exception& error) {
        return std::string("another exception: ") + error.what();
    }
    return "no error";
}

}  // namespace convoy::test
