// convoy: trains image classifiers on many ranks. Picks the subcommand, and turns every failure
// into one line and one exit code on all ranks.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
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

const char* const usage =
    "usage: convoy COMMAND [options]\n"
    "Trains image classifiers on many ranks; mpirun or srun starts several.\n\n"
    "  convert    make a data set from image files, CIFAR, MNIST or a seed\n"
    "  verify     check every checksum of a data set\n"
    "  train      train a model\n"
    "  sweep      train once for each of some values of options, and compare\n"
    "  evaluate   measure a trained model on a data set\n"
    "  export     write a trained model as safetensors, for PyTorch\n"
    "  report     sum runs up and compare them, or say how they scale\n"
    "  plot       draw runs, or how they scale, as a picture\n"
    "  bench      measure training steps on made-up or real images\n"
    "  predict    say what a step will take on a cluster, before a job is queued\n"
    "  demo       show how ranks split a batch: forward only, as DataParallel\n"
    "  comm-test  check sums over ranks, and measure them\n"
    "  info       print versions and the ranks with their devices\n\n"
    "exit codes: 0 done, 2 usage, 3 bad input, 4 loss not finite, 5 cannot write,\n"
    "  6 communication failed, 7 not enough memory, 85 checkpointed on request,\n"
    "  130 interrupted\n\n"
    "one screen on a command: convoy COMMAND -h; all of its options: convoy COMMAND --help\n";

using Arguments = std::vector<std::string>;

struct Command {
    std::function<int(Comm&, const Arguments&)> run;
    OptionGroups (*options)();                       ///< for help
    int (*without_mpi)(const Arguments&) = nullptr;  ///< what runs instead, on rank 0
};

/// A command that runs on one rank and needs no others.
Command alone(int (*command)(const Arguments&), OptionGroups (*options)()) {
    const auto run = [command](Comm& comm, const Arguments& args) {
        int code = 0;
        comm.together([&] {
            if (comm.root()) code = command(args);
        });
        return code;
    };
    return {run, options};
}

/// Returns a command like alone(), which also runs on machines where MPI does not start.
Command without_mpi(int (*command)(const Arguments&), OptionGroups (*options)()) {
    Command c = alone(command, options);
    c.without_mpi = command;
    return c;
}

using Collective = int (*)(Comm&, const Arguments&);

const std::map<std::string, Command> commands = {{"convert", {Collective(convert), options_of_convert}},
                                                 {"verify", alone(verify, options_of_verify)},
                                                 {"train", {train, options_of_train}},
                                                 {"sweep", without_mpi(sweep, options_of_sweep)},
                                                 {"evaluate", {evaluate, options_of_evaluate}},
                                                 {"export", without_mpi(export_model, options_of_export)},
                                                 {"demo", {demo, options_of_demo}},
                                                 {"bench", {bench, options_of_bench}},
                                                 {"report", alone(report, options_of_report)},
                                                 {"plot", alone(plot, options_of_plot)},
                                                 {"predict", without_mpi(predict, options_of_predict)},
                                                 {"comm-test", {comm_test, options_of_comm_test}},
                                                 {"info", {info, options_of_info}}};

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

/// Prints the help of a command, or of one kind of it, as of `convert mnist`.
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

/// Prints what needs neither MPI nor other ranks: help and the version. Returns its exit code;
/// nothing if `args` ask for something else.
std::optional<int> answer(const Arguments& args) {
    const auto found = args.empty() ? commands.end() : commands.find(args[0]);
    const bool for_command = found != commands.end() && help_request({args.begin() + 1, args.end()});
    const bool of_version = !args.empty() && args[0] == "--version";
    if (!args.empty() && !of_version && !for_command && (found != commands.end() || !help_request({args[0]})))
        return std::nullopt;
    const int code = args.empty() ? int(Exit::usage) : int(Exit::done);
    if (launched_rank() != 0) return code;
    if (for_command)
        print_help(args[0], found->second.options(), {args.begin() + 1, args.end()});
    else if (of_version)
        std::printf("convoy %s (%s)\n", version, commit());
    else
        std::fputs(usage, args.empty() ? stderr : stdout);
    return code;
}

/// The command's exit code, if it needs no MPI.
std::optional<int> run_without_mpi(const Arguments& args) {
    const auto found = args.empty() ? commands.end() : commands.find(args[0]);
    if (found == commands.end() || !found->second.without_mpi) return std::nullopt;
    return launched_rank() == 0 ? found->second.without_mpi({args.begin() + 1, args.end()}) : 0;
}

[[noreturn]] void fail_as_unknown(const std::string& command) {
    Arguments names;
    for (const auto& [name, unused] : commands) names.push_back(name);
    fail_everywhere(
        Exit::usage,
        "there is no command '" + command + "'" +
            unknown_choice(
                command, names,
                "convert, verify, train, sweep, evaluate, export, demo, bench, report, plot, predict, comm-test or "
                "info"));
}

int run(Comm& comm, const Arguments& args) {
    const auto found = commands.find(args[0]);
    if (found == commands.end()) fail_as_unknown(args[0]);
    comm.together(check_session_folder);
    try {
        return found->second.run(comm, {args.begin() + 1, args.end()});
    } catch (const std::exception& error) {
        if (is_out_of_memory(error)) throw std::bad_alloc();
        throw;
    }
}

/// Returns the exit code of a command: Exit::io if its output could not be written. What a training
/// is for is in its files.
int after_printing(int code, const std::string& command) {
    if (code != 0 || command == "train") return code;
    std::cout.flush();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return code;
    std::fprintf(stderr, "convoy: stdout cannot be written; check where it leads, and free space\n");
    return int(Exit::io);
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_streams();
    std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails, as one to a full disk does
    const std::string command = argc > 1 ? argv[1] : "";
    if (command == "train" || command == "bench" || command == "evaluate" || command == "demo") wait_briefly(argv);
    const Arguments args = spelled_out({argv + 1, argv + argc});
    try {
        if (const std::optional<int> code = answer(args)) return after_printing(*code, command);
        if (const std::optional<int> code = run_without_mpi(args)) return after_printing(*code, command);
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
    spare_address_space();
    keep_nccl_log();
    Comm comm(&argc, &argv);
    raise_file_limit();
    int code = 0;
    try {
        comm.or_abort([&] { code = run(comm, args); });
    } catch (const Error& error) {  // on all ranks
        if (comm.root()) std::fprintf(stderr, "convoy: %s\n", error.what());
        comm.barrier();
        code = int(error.code);
    }
    return after_printing(code, command);
}
