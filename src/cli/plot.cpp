// convoy plot: draws runs with src/plot/plot.py, by a Python that has what the script imports.
#include <sys/mman.h>
#include <unistd.h>

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
    // HDF5 looks for this at the start, and behind a user's block of 512 bytes, 1024 and so on.
    std::ifstream file(path, std::ios::binary);
    for (std::streamoff at = 0; file.seekg(at); at = at == 0 ? 512 : 2 * at) {
        char bytes[sizeof begin - 1] = {};
        if (!file.read(bytes, sizeof bytes)) return;
        if (std::string(bytes, sizeof bytes) == begin) return h5::check_structure(path, h5::Objects::all);
    }
}

}  // namespace

/// The script parses them itself.
OptionGroups options_of_plot() {
    namespace po = boost::program_options;
    po::options_description options;
    options.add_options()  //
        ("out", po::value<std::string>()->value_name("FILE.png"),
         "the picture (default: metrics.png in the first run's folder)")           //
        ("title", po::value<std::string>()->value_name("TEXT"), "of the picture")  //
        ("scaling", po::bool_switch(),
         "how runs scale; RUN is what convoy report --scaling --format json printed, - for stdin")  //
        ("difference", po::bool_switch(), "of the training losses of two runs, step by step");
    return one_group(options);
}

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
    std::vector<std::string> words = command_of_plot();
    for (const std::string& argument : args) check_metrics(argument);
    words.insert(words.end(), args.begin(), args.end());
    return run_python(words);
}

}  // namespace convoy
