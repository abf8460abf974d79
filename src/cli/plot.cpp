// convoy plot: draws runs with src/plot/plot.py, by a Python that has what the script imports.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/project.h"
#include "cli/commands.h"
#include "cli/python.h"
#include "data/hdf5_structure.h"

namespace convoy {
namespace {

constexpr const char* script = "src/plot/plot.py";
constexpr const char* usage =
    "usage: convoy plot RUN... [--out FILE.png] [--title TEXT]\n"
    "       convoy plot RUN RUN --difference [--out FILE.png] [--title TEXT]\n"
    "       convoy report --scaling --format json RUN... | convoy plot --scaling - [--out FILE.png] [--title TEXT]\n"
    "Draws the curves of runs, which may still go on, or how runs scale. It takes $PYTHON if that is set, else python3 "
    "or\n"
    "/usr/bin/python3, whichever has h5py, matplotlib and numpy.\n";

/// The script and the Python that runs it.
std::vector<std::string> command_of_plot() {
    const std::string path = project_file(script);
    if (path.empty())
        fail(Exit::bad_input,
             std::string(script) +
                 " is not in this executable's checkout, or belongs to another user; name a checkout of your own: "
                 "CONVOY_HOME=/path/to/convoy");
    const std::string folder = path.substr(0, path.rfind('/'));
    return {python_for_plots(folder + "/requirements.txt"), path};
}

/// Refuses metrics on which HDF5 would crash in Python; the script looks at all else. `argument`
/// may be any word of the command.
void check_metrics(const std::string& argument) {
    constexpr char begin[] = "\x89HDF\r\n\x1a\n";
    std::error_code unseen;
    const bool is_folder = std::filesystem::is_directory(argument, unseen);
    const std::string path = is_folder ? argument + "/metrics.h5" : argument;
    if (!std::filesystem::is_regular_file(path, unseen)) return;
    char bytes[sizeof begin - 1] = {};
    std::ifstream(path, std::ios::binary).read(bytes, sizeof bytes);
    if (std::string(bytes, sizeof bytes) == begin) h5::check_structure(path, h5::Objects::all);
}

}  // namespace

int plot_cells(const std::string& json, const std::string& out) {
    std::vector<std::string> words = command_of_plot();
    words.insert(words.end(), {"--scaling", "-", "--out", out});
    const int input = memfd_create("cells", MFD_CLOEXEC);
    if (input < 0 || write(input, json.data(), json.size()) != ssize_t(json.size()) || lseek(input, 0, SEEK_SET) != 0)
        fail(Exit::io, "plot: no memory for what is to be drawn");
    const int code = run_python(words, input);
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
    for (const std::string& argument : args) check_metrics(argument);
    words.insert(words.end(), args.begin(), args.end());
    return run_python(words);
}

}  // namespace convoy
