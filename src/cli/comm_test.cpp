// convoy comm-test: are sums over ranks right, and how fast are they?
#include <cstdio>
#include <limits>
#include <sstream>

#include "base/text.h"
#include "bench/sums.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "comm/preflight.h"
#include "comm/watchdog.h"

namespace convoy {
namespace po = boost::program_options;
namespace {

struct CommTestOptions {
    std::string device, bytes, format;
    int64_t steps = 0, seed = 0, iterations = 0;
    double sleep = 0;
    bool share = false;
    std::vector<size_t> sizes;
    SumLines lines = SumLines::plain;
    std::string text;  ///< of --help
};

CommTestOptions parse_comm_test(const std::vector<std::string>& args) {
    CommTestOptions o;
    const Choices<SumLines> formats = {{"plain", SumLines::plain},
                                       {"toy", SumLines::toy, "those of the PyTorch script, and no others"}};
    po::options_description options("options of comm-test", 140);
    options.add_options()  //
        ("steps", po::value<int64_t>()->value_name("N"),
         "sums of one small number a rank, each printed and checked by every rank (default 100, or 0 with --bytes)")  //
        ("sleep", po::value<double>(&o.sleep)->default_value(0)->value_name("S"),
         "seconds to sleep after each step")  //
        ("bytes", po::value<std::string>(&o.bytes)->value_name("SIZES"),
         "bandwidth: one size, or a range of doubled sizes, as in 1K..1G")                                    //
        ("iterations", po::value<int64_t>()->default_value(20)->value_name("N"), "timed all-reduces a size")  //
        ("seed", po::value<int64_t>()->default_value(1)->value_name("N"), "of the numbers")                   //
        ("log-format", po::value<std::string>(&o.format)->default_value("plain")->value_name("KIND"),
         ("lines of the small sums: " + help_of(formats)).c_str())  //
        ("device", po::value<std::string>(&o.device)->default_value("auto")->value_name("KIND"),
         "auto, cuda (NCCL) or cpu (MPI)")                                                                           //
        ("share-device", po::bool_switch(&o.share), "let several ranks use one GPU; sums then go through the host")  //
        ("help", po::bool_switch(), "print this");
    const po::variables_map values = parse(options, args);
    o.text = (std::ostringstream() << options).str();
    if (!o.bytes.empty()) o.sizes = parse_sizes(o.bytes);
    o.steps = values.count("steps") ? value_in_range(values, "steps", 0, 1'000'000'000) : o.sizes.empty() ? 100 : 0;
    o.iterations = value_in_range(values, "iterations", 1, 1'000'000);
    o.seed = value_in_range(values, "seed", 0, std::numeric_limits<int64_t>::max());
    if (!(o.sleep >= 0 && o.sleep <= 60))
        fail(Exit::usage, formatted("--sleep %g: must be from 0 to 60 seconds", o.sleep));
    o.lines = choose("log-format", o.format, formats);
    if (o.lines == SumLines::toy && !o.bytes.empty())
        fail(Exit::usage, "--log-format toy is of the sums of small numbers; leave it out, or leave out --bytes");
    return o;
}

}  // namespace

std::string comm_test_help() {
    return "usage: convoy comm-test [--steps N] [--bytes 1K..1G] [options]\n" + parse_comm_test({"--help"}).text;
}

int comm_test(Comm& comm, const std::vector<std::string>& args) {
    CommTestOptions o;
    comm.together([&] {
        o = parse_comm_test(args);
        check_world(comm);
    });
    Watchdog watchdog(comm, 300);
    BackendOptions how;
    how.threads = 1;
    how.share_device = o.share;
    how.capture = comm.size() > 1;  // of one rank there is nothing to capture
    const std::unique_ptr<Backend> backend = make_backend(o.device, how, comm);
    const std::vector<std::string> places = comm.gather_all(comm.host() + ": " + backend->device());
    if (comm.root() && o.lines == SumLines::plain)
        for (int rank = 0; rank < comm.size(); ++rank)
            std::printf("# rank %d on %s\n", rank, places[size_t(rank)].c_str());
    if (const std::string way = backend->transport(); comm.root() && o.lines == SumLines::plain && !way.empty())
        std::printf("# sums by %s\n", way.c_str());
    std::fflush(stdout);
    if (o.steps > 0)
        sum_small_numbers(comm, *backend,
                          {.steps = o.steps, .sleep = o.sleep, .seed = uint64_t(o.seed), .lines = o.lines});
    if (!o.sizes.empty()) measure_sums(comm, *backend, o.sizes, o.iterations, uint64_t(o.seed));
    return 0;
}

}  // namespace convoy
