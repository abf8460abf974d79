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
    "usage: convoy COMMAND [options]      (convoy COMMAND -h tells more)\n"
    "  convert   make a data set of HDF5 shards from CIFAR, MNIST, image files or a seed\n"
    "  verify    check every checksum of a data set\n"
    "  train     train a model; start it with mpirun or srun for several ranks\n"
    "  evaluate  measure a trained model on a data set\n"
    "  export    write a trained model for other programs: safetensors with PyTorch's names\n"
    "  demo      show how ranks split a batch and gather its outputs: forward only, as DataParallel\n"
    "  bench     measure the speed of training steps on made-up or real images\n"
    "  report    sum up runs: accuracy, time, images/s, slow ranks; or how they scale\n"
    "  plot      draw runs, or how they scale, as a picture\n"
    "  predict   say what a training step will take on a cluster, before a job is queued\n"
    "  comm-test check sums over ranks, and measure them\n"
    "  info      print versions and the ranks with their devices\n"
    "exit codes: 0 done, 2 usage, 3 bad input, 4 loss not finite, 5 cannot write, 6 communication failed,\n"
    "            7 not enough memory, 85 checkpointed on request, 130 interrupted\n";

using Arguments = std::vector<std::string>;

struct Command {
    std::function<int(Comm&, const Arguments&)> run;
    std::function<void(const Arguments&)> help;      ///< of arguments with --help among them; starts no MPI
    int (*without_mpi)(const Arguments&) = nullptr;  ///< what runs instead, on rank 0
};

/// A command that runs on one rank and needs no others.
Command alone(int (*command)(const Arguments&)) {
    const auto run = [command](Comm& comm, const Arguments& args) {
        int code = 0;
        comm.together([&] {
            if (comm.root()) code = command(args);
        });
        return code;
    };
    return {run, command};
}

/// Returns a command like alone(), which also runs on machines where MPI does not start.
Command without_mpi(int (*command)(const Arguments&)) {
    Command c = alone(command);
    c.without_mpi = command;
    return c;
}

Command collective(int (*command)(Comm&, const Arguments&), std::string (*help)()) {
    return {command, [help](const Arguments&) { std::fputs(printable(help(), "\n").c_str(), stdout); }};
}

/// One of its sources is converted by all ranks.
Command conversion() {
    return {[](Comm& comm, const Arguments& args) { return convert(comm, args); },
            [](const Arguments& args) { convert(args); }};
}

const std::map<std::string, Command> commands = {{"convert", conversion()},
                                                 {"verify", alone(verify)},
                                                 {"train", collective(train, train_help)},
                                                 {"evaluate", collective(evaluate, evaluate_help)},
                                                 {"export", without_mpi(export_model)},
                                                 {"demo", collective(demo, demo_help)},
                                                 {"bench", collective(bench, bench_help)},
                                                 {"report", alone(report)},
                                                 {"plot", alone(plot)},
                                                 {"predict", without_mpi(predict)},
                                                 {"comm-test", collective(comm_test, comm_test_help)},
                                                 {"info", collective(info, info_help)}};

/// Replaces `help`, `help COMMAND`, `version` and -h by the options that they stand for.
Arguments spelled_out(Arguments args) {
    if (args.empty()) return args;
    if (args[0] == "help") {
        args.erase(args.begin());
        args.emplace_back("--help");
    }
    if (args[0] == "version") args[0] = "--version";
    std::replace(args.begin(), args.end(), std::string("-h"), std::string("--help"));
    return args;
}

/// Prints what needs neither MPI nor other ranks: help and the version. False if `args` ask for
/// something else.
bool answered(const Arguments& args) {
    const auto asks = [](const std::string& arg) { return arg == "--help" || arg.starts_with("--help="); };
    if (args.empty()) return false;
    const auto found = commands.find(args[0]);
    const bool for_command = found != commands.end() && std::any_of(args.begin(), args.end(), asks);
    if (args[0] != "--version" && !asks(args[0]) && !for_command) return false;
    if (launched_rank() != 0) return true;
    if (for_command)
        found->second.help({args.begin() + 1, args.end()});
    else if (args[0] == "--version")
        std::printf("convoy %s (%s)\n", version, commit());
    else
        std::fputs(usage, stdout);
    return true;
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
                "convert, verify, train, evaluate, export, demo, bench, report, plot, predict, comm-test or info"));
}

int run(Comm& comm, const Arguments& args) {
    if (args.empty()) {
        if (comm.root()) std::fputs(usage, stderr);
        return int(Exit::usage);
    }
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
        if (answered(args)) return after_printing(0, command);
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
