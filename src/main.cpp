// convoy: trains image classifiers on many ranks. Picks the subcommand, and turns every failure
// into one line and one exit code on all ranks.
#include <cstdio>
#include <functional>
#include <map>
#include <new>

#include "backend/out_of_memory.h"
#include "base/memory.h"
#include "base/version.h"
#include "base/waiting.h"
#include "cli/commands.h"
#include "comm/comm.h"

using namespace convoy;

namespace {

const char* const usage =
    "usage: convoy COMMAND [options]      (convoy COMMAND --help tells more)\n"
    "  convert   make a data set of HDF5 shards from CIFAR-10, MNIST or a seed\n"
    "  verify    check every checksum of a data set\n"
    "  train     train a model; start it with mpirun or srun for several ranks\n"
    "  evaluate  measure a trained model on a data set\n"
    "  bench     measure the speed of training steps on made-up or real images\n"
    "  report    sum up runs: accuracy, time, images/s, slow ranks; or how they scale\n"
    "  plot      draw runs, or how they scale, as a picture\n"
    "  comm-test check sums over ranks, and measure them\n"
    "  info      print versions and the ranks with their devices\n"
    "exit codes: 0 done, 2 usage, 3 bad input, 4 loss not finite, 5 cannot write, 6 communication failed,\n"
    "            7 not enough memory, 85 checkpointed on request, 130 interrupted\n";

using Command = std::function<int(Comm&, const std::vector<std::string>&)>;

/// A command that runs on one rank and needs no others.
Command alone(int (*command)(const std::vector<std::string>&)) {
    return [command](Comm& comm, const std::vector<std::string>& args) {
        int code = 0;
        comm.together([&] {
            if (comm.root()) code = command(args);
        });
        return code;
    };
}

const std::map<std::string, Command> commands = {
    {"convert", alone(convert)}, {"verify", alone(verify)}, {"train", train},
    {"evaluate", evaluate},      {"bench", bench},          {"report", alone(report)},
    {"plot", alone(plot)},       {"comm-test", comm_test},  {"info", info}};

int run(Comm& comm, const std::vector<std::string>& args) {
    const std::string name = args.empty() ? "--help" : args[0];
    if (name == "--help" || name == "help") {
        if (comm.root()) std::fputs(usage, args.empty() ? stderr : stdout);
        return args.empty() ? int(Exit::usage) : 0;
    }
    if (name == "--version") {
        if (comm.root()) std::printf("convoy %s (%s)\n", version, commit());
        return 0;
    }
    const auto found = commands.find(name);
    if (found == commands.end())
        fail_everywhere(Exit::usage,
                        "there is no command '" + name +
                            "'; choose convert, verify, train, evaluate, bench, report, plot, comm-test or info");
    try {
        return found->second(comm, {args.begin() + 1, args.end()});
    } catch (const std::exception& error) {
        if (is_out_of_memory(error)) throw std::bad_alloc();
        throw;
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::string command = argc > 1 ? argv[1] : "";
    if (command == "train" || command == "bench" || command == "evaluate") wait_briefly(argv);
    spare_address_space();
    Comm comm(&argc, &argv);
    int code = 0;
    try {
        comm.or_abort([&] { code = run(comm, {argv + 1, argv + argc}); });
    } catch (const Error& error) {  // on all ranks
        if (comm.root()) std::fprintf(stderr, "convoy: %s\n", error.what());
        comm.barrier();
        code = int(error.code);
    }
    return code;
}
