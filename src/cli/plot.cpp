// convoy plot: draws runs with src/plot/plot.py, run by a Python that has the modules it imports.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/project.h"
#include "base/shell_word.h"
#include "cli/commands.h"
#include "cli/python.h"
#include "data/hdf5_structure.h"

namespace convoy {
namespace {

constexpr const char* script = "src/plot/plot.py";

/// Returns the start of the command: Python and the script.
std::vector<std::string> command_of_plot() {
    const std::string path = project_script(script);
    const std::string folder = path.substr(0, path.rfind('/'));
    return {python_for_plots(folder + "/requirements.txt"), path};
}

/// The metric file that a word of the command names, and its folder. Both stay open until Python
/// ends, and Python opens neither by its path: another user may exchange them meanwhile.
struct Opened {
    Descriptor folder{-1}, file{-1};
};

/// Opens a path without reading it, so that a pipe or a device does no harm. Child processes
/// inherit the descriptor.
Descriptor open_path(int folder, const std::string& name) {
    Descriptor opened(::openat(folder, name.c_str(), O_PATH));
    if (!opened.valid() && (errno == EMFILE || errno == ENFILE)) cannot_read(name, errno, "draw fewer runs at once");
    return opened;
}

bool is_of_type(const Descriptor& opened, mode_t type) {
    struct stat status{};
    return opened.valid() && ::fstat(opened.fd(), &status) == 0 && (status.st_mode & S_IFMT) == type;
}

/// Opens what a word names: a run's folder or a file. Returns invalid descriptors if it names no
/// regular file.
Opened open_metrics(const std::string& word) {
    const std::filesystem::path path(word);
    Descriptor folder = open_path(AT_FDCWD, word);
    std::string name = "metrics.h5";
    if (folder.valid() && !is_of_type(folder, S_IFDIR)) {
        folder = open_path(AT_FDCWD, path.has_parent_path() ? path.parent_path().string() : ".");
        name = path.filename().string();
    }
    if (!folder.valid()) return {};
    Descriptor file = open_path(folder.fd(), name);
    if (!is_of_type(file, S_IFREG)) return {};
    return {std::move(folder), std::move(file)};
}

/// Refuses metrics on which HDF5 would crash in Python. The script checks everything else.
void check_metrics(const std::string& path) {
    constexpr char begin[] = "\x89HDF\r\n\x1a\n";
    // HDF5 looks for its signature at the start, and after a user block of 512 bytes, 1024 and so
    // on.
    std::ifstream file(path, std::ios::binary);
    for (std::streamoff at = 0; file.seekg(at); at = at == 0 ? 512 : 2 * at) {
        char bytes[sizeof begin - 1] = {};
        if (!file.read(bytes, sizeof bytes)) return;
        if (std::string(bytes, sizeof bytes) == begin) return h5::check_structure(path, h5::Objects::all);
    }
}

/// Checks an open file. Messages name the file by the path that the user knows: `word`, or the
/// metrics.h5 in it.
void check_opened(const Opened& metrics, const std::string& word) {
    const std::string path = "/proc/self/fd/" + std::to_string(metrics.file.fd());
    std::error_code unseen;
    const bool is_folder = std::filesystem::is_directory(word, unseen);
    const std::string known = is_folder ? (std::filesystem::path(word) / "metrics.h5").string() : word;
    try {
        check_metrics(path);
    } catch (const Error& error) {
        std::string text = error.what();
        if (text.starts_with(path)) text.replace(0, path.size(), known);
        // elsewhere the path is a word of a command in the message
        if (const size_t at = text.find(path); at != std::string::npos)
            text.replace(at, path.size(), shell_word(known));
        fail(error.code, text);
    }
}

/// Opens and checks the metrics that the command names. For each, passes WORD:FOLDER:FILE to the
/// script: the number of its word, counted from 1, and two descriptors.
std::vector<Opened> open_all(const std::vector<std::string>& args) {
    std::vector<Opened> all;
    std::string told;
    for (size_t i = 0; i < args.size(); ++i) {
        Opened metrics = open_metrics(args[i]);
        if (!metrics.file.valid()) continue;
        check_opened(metrics, args[i]);
        told += formatted("%s%zu:%d:%d", told.empty() ? "" : " ", i + 1, metrics.folder.fd(), metrics.file.fd());
        all.push_back(std::move(metrics));
    }
    ::setenv("CONVOY_PLOT_OPENED", told.c_str(), 1);
    return all;
}

}  // namespace

/// Returns the options for help only; the script parses them.
OptionGroups options_of_plot() {
    namespace po = boost::program_options;
    po::options_description options;
    options.add_options()  //
        ("out", po::value<std::string>()->value_name("FILE.png"),
         "the picture (default: metrics.png in the first run's folder)")           //
        ("title", po::value<std::string>()->value_name("TEXT"), "of the picture")  //
        ("scaling", po::bool_switch(),
         "how runs scale; RUN is what convoy report --scaling --format json printed, - for stdin")  //
        ("difference", po::bool_switch(), "draw the difference of the training losses of two runs");
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
    const std::vector<Opened> opened = open_all(args);
    words.insert(words.end(), args.begin(), args.end());
    return run_python(words);
}

}  // namespace convoy
