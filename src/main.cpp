// convoy: trains image classifiers on many ranks. Selects the subcommand, and turns every failure
// into one line and one exit code on all ranks.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>
#include <optional>

#include "backend/nccl_log.h"
#include "backend/out_of_memory.h"
#include "base/file_limit.h"
#include "base/folder.h"
#include "base/memory.h"
#include "base/nearest_name.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "base/version.h"
#include "base/waiting.h"
#include "cli/commands.h"
#include "comm/comm.h"
#include "comm/launcher.h"

using namespace convoy;

namespace {

// A library's constructor runs before main(). UCX's constructor reads ./ucx.conf, and another user
// may have put that there. Debian 13's OpenMPI is linked with UCX. So the process leaves the
// current folder before all constructors of libraries, and returns after them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int current_folder = -1;

void leave_current_folder() {
    current_folder = open_current_folder();
    if (::chdir("/") != 0) ::_exit(int(Exit::io));
}

[[gnu::constructor]] void return_to_current_folder() {
    if (::fchdir(current_folder) != 0) {  // relative paths would lead to other files
        std::perror("convoy: the current folder cannot be entered; start in a folder of yours");
        ::_exit(int(Exit::io));
    }
    ::close(current_folder);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*before_libraries)() = leave_current_folder;
#endif

using Arguments = std::vector<std::string>;

struct Command {
    const char *name, *does;
    std::function<int(Comm&, const Arguments&)> run;
    OptionGroups (*options)();                         ///< for help
    int (*without_mpi)(const Arguments&) = nullptr;    ///< runs instead of the command, on rank 0
    bool computes = false;                             ///< true: its threads wait for each other many times per second
    bool (*needs_no_mpi)(const Arguments&) = nullptr;  ///< returns true if `without_mpi` runs; null: always
};

/// Returns a command that runs on one rank and needs no others.
Command alone(const char* name, const char* does, int (*command)(const Arguments&), OptionGroups (*options)()) {
    const auto run = [command](Comm& comm, const Arguments& args) {
        int code = 0;
        comm.together([&] {
            if (comm.root()) code = command(args);
        });
        return code;
    };
    return {name, does, run, options};
}

/// Does the same as alone(), but the command also runs on machines where MPI does not start.
Command without_mpi(const char* name, const char* does, int (*command)(const Arguments&), OptionGroups (*options)()) {
    Command c = alone(name, does, command, options);
    c.without_mpi = command;
    return c;
}

/// Returns a command that runs steps of a model on all ranks.
Command computing(const char* name, const char* does, int (*command)(Comm&, const Arguments&),
                  OptionGroups (*options)()) {
    return {name, does, command, options, nullptr, true};
}

using Collective = int (*)(Comm&, const Arguments&);

/// All commands, in the order of `convoy --help`.
const Command commands[] = {
    {"convert", "make a data set from image files, CIFAR, MNIST or a seed", Collective(convert), options_of_convert},
    alone("verify", "check every checksum of a data set", verify, options_of_verify),
    computing("train", "train a model", train, options_of_train),
    without_mpi("sweep", "train once for each combination of option values, and compare", sweep, options_of_sweep),
    computing("evaluate", "measure a trained model on a data set", evaluate, options_of_evaluate),
    computing("classify", "say what a trained model sees in pictures", classify, options_of_classify),
    without_mpi("export", "write a trained model as safetensors or ONNX", export_model, options_of_export),
    without_mpi("import", "make a model file from PyTorch's weights", import_model, options_of_import),
    alone("report", "sum runs up and compare them, or say how they scale", report, options_of_report),
    alone("plot", "draw runs, or how they scale, as a picture", plot, options_of_plot),
    computing("accept", "say whether a cluster computes right and as fast as it should", accept, options_of_accept),
    computing("bench", "measure training steps on made-up or real images", bench, options_of_bench),
    without_mpi("predict", "say what a step will take on a cluster, before a job is queued", predict,
                options_of_predict),
    computing("demo", "show how ranks split a batch: forward only, as DataParallel", demo, options_of_demo),
    {"comm-test", "check all-reduces over ranks, and measure them", comm_test, options_of_comm_test},
    {"info", "print versions and the ranks with their devices", info, options_of_info, run_plans, false, runs_plans}};

/// Returns null if there is no such command.
const Command* find_command(const std::string& name) {
    const auto* found = std::ranges::find(commands, name, &Command::name);
    return found == std::end(commands) ? nullptr : found;
}

std::string usage() {
    std::string text =
        "usage: convoy COMMAND [options]\n"
        "Trains image classifiers on many ranks; mpirun or srun starts several.\n\n";
    for (const Command& command : commands) text += formatted("  %-11s%s\n", command.name, command.does);
    return text +
           "\nexit codes: 0 done, 2 usage, 3 bad input, 4 loss not finite, 5 cannot write,\n"
           "  6 communication error, 7 out of memory, 8 not accepted, 85 checkpointed, 130 Ctrl-C\n\n"
           "one screen on a command: convoy COMMAND -h; all of its options: convoy COMMAND --help\n";
}

/// Replaces `help COMMAND`, `--help COMMAND` and `-h COMMAND` by the command's own option, and
/// `version` by `--version`.
Arguments spelled_out(Arguments args) {
    if (args.empty()) return args;
    if (args[0] == "version") args[0] = "--version";
    if (args[0] == "help") args[0] = "--help";
    if (args.size() > 1 && (args[0] == "--help" || args[0] == "-h")) {
        const bool of_kind = args.size() > 2 && screen_of(args[1] + " " + args[2]);
        std::rotate(args.begin(), args.begin() + 1, args.begin() + (of_kind ? 3 : 2));
    }
    return args;
}

/// Prints the help of a command, or of a variant such as `convert mnist`.
void print_help(const std::string& command, const OptionGroups& groups, Arguments args) {
    CommandHelp help{command, *screen_of(command), groups};
    HelpRequest request = *help_request(args);
    const std::string kind = args[0].starts_with("-") ? request.topic : args[0];
    if (const HelpScreen* screen = kind.empty() ? nullptr : screen_of(command + " " + kind)) {
        help = {command + " " + kind, *screen, groups};
        std::erase_if(help.groups, [&](const OptionGroup& group) { return group.heading != kind; });
        if (request.topic == kind) request.topic.clear();
    }
    const std::string text = !request.topic.empty() ? help_on(help, request.topic, help_columns())
                             : request.all          ? long_help(help, help_columns())
                                                    : short_help(help);
    std::fputs(text.c_str(), stdout);
}

/// Prints help or the version, which need neither MPI nor other ranks. Returns the exit code;
/// nothing if `args` ask for something else.
std::optional<int> answer(const Arguments& args) {
    const Command* found = args.empty() ? nullptr : find_command(args[0]);
    const bool for_command = found && help_request({args.begin() + 1, args.end()});
    const bool of_version = !args.empty() && args[0] == "--version";
    if (!args.empty() && !of_version && !for_command && (found || !help_request({args[0]}))) return std::nullopt;
    const int code = args.empty() ? int(Exit::usage) : int(Exit::done);
    if (launched_rank() != 0) return code;
    if (for_command)
        print_help(args[0], found->options(), {args.begin() + 1, args.end()});
    else if (of_version)
        std::printf("convoy %s (%s)\n", version, commit());
    else
        std::fputs(usage().c_str(), args.empty() ? stderr : stdout);
    return code;
}

/// Runs the command if it needs no MPI, and returns its exit code; otherwise returns nothing.
std::optional<int> run_without_mpi(const Arguments& args) {
    const Command* found = args.empty() ? nullptr : find_command(args[0]);
    if (!found || !found->without_mpi) return std::nullopt;
    const Arguments own(args.begin() + 1, args.end());
    if (found->needs_no_mpi && !found->needs_no_mpi(own)) return std::nullopt;
    return launched_rank() == 0 ? found->without_mpi(own) : 0;
}

[[noreturn]] void fail_as_unknown(const std::string& command) {
    Arguments names;
    for (const Command& known : commands) names.emplace_back(known.name);
    fail_everywhere(Exit::usage,
                    "there is no command '" + command + "'" + unknown_choice(command, names, list_of(names)));
}

int run(Comm& comm, const Arguments& args) {
    const Command* found = find_command(args[0]);
    if (!found) fail_as_unknown(args[0]);
    comm.together(check_session_folder);
    try {
        return found->run(comm, {args.begin() + 1, args.end()});
    } catch (const std::exception& error) {
        if (is_out_of_memory(error)) throw std::bad_alloc();
        throw;
    }
}

/// Returns the exit code of a command. It is Exit::io if its output could not be written. A
/// training's results are in files, so its output does not count.
int after_printing(int code, const std::string& command) {
    if (code != 0 || command == "train") return code;
    std::cout.flush();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return code;
    std::fprintf(stderr, "convoy: stdout cannot be written; check where it leads, and free space\n");
    return int(Exit::io);
}

/// Starts MPI and runs the command on all ranks. Returns its exit code. Throws Error if MPI cannot
/// be started safely.
int run_with_mpi(int argc, char** argv, const Arguments& args) {
    spare_address_space();
    keep_nccl_log();
    Comm comm(&argc, &argv);
    raise_file_limit();
    int code = 0;
    try {
        comm.or_abort([&] { code = run(comm, args); });
    } catch (const Error& error) {  // all ranks throw this error
        if (comm.root()) std::fprintf(stderr, "convoy: %s\n", error.what());
        comm.barrier();
        code = int(error.code);
    }
    return after_printing(code, args[0]);
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_streams();
    ask_no_display();
    std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` then fails, like a write to a full disk
    const std::string command = argc > 1 ? argv[1] : "";
    if (const Command* found = find_command(command); found && found->computes) wait_briefly(argv);
    const Arguments args = spelled_out({argv + 1, argv + argc});
    try {
        if (const std::optional<int> code = answer(args)) return after_printing(*code, command);
        if (const std::optional<int> code = run_without_mpi(args)) return after_printing(*code, command);
        return run_with_mpi(argc, argv, args);
    } catch (const std::filesystem::filesystem_error& error) {
        std::fprintf(stderr, "convoy: %s\n", error_at_path(error).what());
        return int(Exit::io);
    } catch (const Error& error) {
        std::fprintf(stderr, "convoy: %s\n", error.what());
        return int(error.code);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "convoy: %s\n", error.what());
        return 1;
    }
}
