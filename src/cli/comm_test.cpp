// convoy comm-test: checks all-reduces, and measures them.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <optional>

#include "base/durable.h"
#include "base/redaction.h"
#include "base/text.h"
#include "bench/all_reduce_result.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/versions.h"
#include "comm/preflight.h"
#include "comm/watchdog.h"
#include "plan/all_reduce_time.h"
#include "report/cluster_file.h"

namespace convoy {
namespace po = boost::program_options;
namespace {

struct CommTestOptions {
    std::string device, bytes, format, json, cluster;
    int64_t steps = 0, seed = 0, iterations = 0;
    double sleep = 0, at_least = NAN;
    bool share = false, no_environment = false;
    std::vector<size_t> sizes;
    AllReduceLines lines = AllReduceLines::plain;
};

Choices<AllReduceLines> formats() {
    return {{"plain", AllReduceLines::plain},
            {"toy", AllReduceLines::toy, "those of the PyTorch script, and no others"},
            {"nccl-tests", AllReduceLines::nccl_tests,
             "the table of its all_reduce_perf for --bytes, with times out of place too; each is the slowest rank's, "
             "as with its -a 3"}};
}

po::options_description description(CommTestOptions& o) {
    po::options_description options;
    options.add_options()  //
        ("steps", po::value<int64_t>()->value_name("N"),
         "all-reduces of one small number per rank, which each rank prints and checks (default 100, or 0 with "
         "--bytes)")  //
        ("sleep", po::value<double>(&o.sleep)->default_value(0)->value_name("S"),
         "seconds to sleep after each step")  //
        ("bytes", po::value<std::string>(&o.bytes)->value_name("SIZES"),
         "bandwidth: one size, or a range of doubled sizes, as in 1K..1G")  //
        ("json", po::value<std::string>(&o.json)->value_name("FILE"),
         "write the times of --bytes, too: a cluster file's all-reduce-table; with --log-format nccl-tests, also the "
         "keys of its JSON; replaces FILE")  //
        ("at-least", po::value<double>(&o.at_least)->value_name("GB/s"),
         "fail with exit code 8 if the mean bus bandwidth of --bytes is below this")  //
        ("cluster", po::value<std::string>(&o.cluster)->value_name("FILE"),
         "print beside the times of --bytes what to expect of these machines: jobs/site/*.cluster")             //
        ("iterations", po::value<int64_t>()->default_value(20)->value_name("N"), "timed all-reduces per size")  //
        ("seed", po::value<int64_t>()->default_value(1)->value_name("N"), "of the numbers")                     //
        ("log-format", po::value<std::string>(&o.format)->default_value("plain")->value_name("KIND"),
         ("lines on stdout: " + help_of(formats())).c_str())  //
        ("device", po::value<std::string>(&o.device)->default_value("auto")->value_name("KIND"),
         "auto, cuda (NCCL) or cpu (MPI)")                                                                           //
        ("share-device", po::bool_switch(&o.share), "let several ranks use one GPU; sums then go through the host")  //
        ("no-environment", po::bool_switch(&o.no_environment),
         "leave out of --json what tells where this runs: addresses, job, system, memory, processor, serial number");
    return options;
}

void check_nccl_tests(const CommTestOptions& o) {
    if (o.sizes.empty()) fail(Exit::usage, "--log-format nccl-tests: is of the times of --bytes; add --bytes 1M..1G");
    if (o.steps > 0) fail(Exit::usage, "--log-format nccl-tests: has no lines for --steps; leave one of them out");
    if (!o.cluster.empty())
        fail(Exit::usage, "--log-format nccl-tests: has no columns for --cluster; leave one of them out");
}

CommTestOptions parse_comm_test(const std::vector<std::string>& args) {
    CommTestOptions o;
    const po::variables_map values = parse(description(o), args);
    if (!o.bytes.empty()) o.sizes = parse_sizes(o.bytes);
    o.steps = values.count("steps") ? value_in_range(values, "steps", 0, 1'000'000'000) : o.sizes.empty() ? 100 : 0;
    o.iterations = value_in_range(values, "iterations", 1, 1'000'000);
    o.seed = value_in_range(values, "seed", 0, std::numeric_limits<int64_t>::max());
    if (!(o.sleep >= 0 && o.sleep <= 60))
        fail(Exit::usage, formatted("--sleep %g: must be from 0 to 60 seconds", o.sleep));
    o.lines = choose("log-format", o.format, formats());
    if (o.lines == AllReduceLines::toy && !o.bytes.empty())
        fail(Exit::usage, "--log-format toy is of the sums of small numbers; leave it out, or leave out --bytes");
    if (o.lines == AllReduceLines::nccl_tests) check_nccl_tests(o);
    if (o.no_environment && o.json.empty())
        fail(Exit::usage, "--no-environment: has no effect without --json; leave it out");
    const bool asked = values.count("at-least") > 0;
    if (asked && !(o.at_least > 0 && std::isfinite(o.at_least)))
        fail(Exit::usage, formatted("--at-least %g: must be above 0 GB/s", o.at_least));
    for (const auto& [option, given] :
         {std::pair("--json", !o.json.empty()), {"--cluster", !o.cluster.empty()}, {"--at-least", asked}})
        if (given && o.sizes.empty())
            fail(Exit::usage, std::string(option) + ": is of the times that --bytes measures; add --bytes 1M..1G");
    return o;
}

void check_layout(const CommTestOptions& o, const RankLayout& l) {
    const bool compared = !std::isnan(o.at_least), tables = !o.json.empty() || !o.cluster.empty();
    const std::string option = !o.json.empty() ? "--json" : !o.cluster.empty() ? "--cluster" : "--at-least";
    if (l.ranks == 1 && (tables || compared)) fail(Exit::usage, option + ": one rank sends nothing; start 2 or more");
    if (!l.even() && tables)
        fail(Exit::usage, formatted("%s: %d ranks are spread unevenly over %d hosts; start the same number on each",
                                    option.c_str(), l.ranks, l.hosts));
}

std::string time_text() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

/// Returns what the lines of nccl-tests say about this run. Collective.
NcclTestsRun nccl_tests_run(Comm& comm, const Backend& backend, const CommTestOptions& o,
                            const std::vector<std::string>& args) {
    const bool by_nccl = backend.facts().transport.starts_with("NCCL");
    NcclTestsRun run{.smallest = o.sizes.front(),
                     .largest = o.sizes.back(),
                     .iterations = o.iterations,
                     .graph = by_nccl,  // a tape is captured
                     .command_line = {"convoy", "comm-test"},
                     .start_time = time_text()};
    run.command_line.insert(run.command_line.end(), args.begin(), args.end());
    for (const auto& [library, version] : versions_of_run(backend))
        if (by_nccl && library == "nccl") run.nccl = nccl_version_code(version);
    const std::vector<std::string> hosts = comm.gather_all(comm.host()),
                                   names = comm.gather_all(backend.facts().device);
    const std::vector<double> numbers =
        comm.gather_all(std::vector<double>{double(getpid()), double(comm.local_rank())});
    for (size_t rank = 0; rank < hosts.size(); ++rank)
        run.ranks.push_back({int64_t(numbers[2 * rank]), hosts[rank], int(numbers[2 * rank + 1]), names[rank]});
    return run;
}

/// Hides hosts and paths, as --no-environment asks.
void redact(NcclTestsRun& run, const CommTestOptions& o) {
    Redaction hide;
    std::vector<std::string> hosts;
    for (const NcclTestsRank& rank : run.ranks) hosts.push_back(rank.host);
    hide.add_hosts(hosts);
    hide.add_path(o.json);
    for (NcclTestsRank& rank : run.ranks) rank.host = hide(rank.host);
    for (std::string& argument : run.command_line) argument = hide(argument);
}

/// Prints how the times of the plain table compare with the expected ones.
void print_verdict(const SizeTimes& times, const CommTestOptions& o, const ExpectedAllReduce& expected, bool by_nccl) {
    if (std::isnan(expected(o.sizes[0])))
        std::printf(
            "# nothing is expected: the model is NCCL's and does not apply to sums by MPI; an all-reduce-table "
            "in %s would tell\n",
            o.cluster.c_str());
    else
        std::printf("# %s\n", verdict_on_all_reduces(times.sizes, expected, by_nccl).c_str());
}

void write_json(const SizeTimes& times, Backend& backend, const CommTestOptions& o, const RankLayout& layout,
                std::optional<NcclTestsRun>& run, const HeldPlace& place) {
    if (const std::string warning = warning_of_falling_times(times.sizes); !warning.empty())
        std::printf("# %s\n", warning.c_str());
    const std::string transport = backend.facts().transport;
    if (run) run->end_time = time_text();
    if (run && o.no_environment) redact(*run, o);
    const std::string json = all_reduce_json({.ranks = layout.ranks,
                                              .hosts = layout.hosts,
                                              .ranks_per_host = layout.ranks_per_host,
                                              .device = backend.facts().device,
                                              .device_kind = backend.facts().synchronous ? "cpu" : "gpu",
                                              .transport = transport.empty() ? "MPI" : transport,
                                              .versions = versions_of_run(backend),
                                              .environment = o.no_environment ? Facts() : environment_of_run(backend),
                                              .times = times},
                                             run ? &*run : nullptr, o.at_least) +
                             "\n";
    replace_file(place, {json.begin(), json.end()});
}

/// Throws Exit::not_accepted on all ranks if the bandwidth is lower than asked for.
void check_bandwidth(const SizeTimes& times, const CommTestOptions& o, int ranks) {
    const double mean = mean_bus_bandwidth(times.sizes, ranks) / 1e9;
    if (mean < o.at_least)
        fail_everywhere(Exit::not_accepted,
                        formatted("the mean bus bandwidth is %.3f GB/s, below --at-least %g; try fewer hosts to find "
                                  "which is slow, or --cluster FILE for what to expect",
                                  mean, o.at_least));
}

/// Measures sizes, prints and writes the times, and checks them. Collective.
void measure(Comm& comm, Backend& backend, const CommTestOptions& o, const RankLayout& layout,
             const std::optional<Cluster>& cluster, const std::vector<std::string>& args,
             const std::optional<HeldPlace>& json) {
    const bool by_nccl = backend.facts().transport.starts_with("NCCL");
    std::optional<NcclTestsRun> run;
    if (o.lines == AllReduceLines::nccl_tests) run = nccl_tests_run(comm, backend, o, args);
    if (run && comm.root()) std::fputs(nccl_tests_header(*run).c_str(), stdout);
    ExpectedAllReduce expected;
    if (cluster)
        expected = [&](size_t bytes) {
            const AllReduceTime t = all_reduce_time(*cluster, double(bytes), layout.hosts, layout.ranks_per_host);
            return by_nccl || t.measured ? t.seconds : NAN;
        };
    const SizeTimes times = measure_all_reduces(comm, backend,
                                                {.sizes = o.sizes,
                                                 .iterations = o.iterations,
                                                 .seed = uint64_t(o.seed),
                                                 .expected = expected,
                                                 .lines = o.lines});
    comm.or_abort([&] {
        if (!comm.root()) return;
        if (run) std::fputs(nccl_tests_footer(times, layout.ranks, o.at_least).c_str(), stdout);
        if (expected) print_verdict(times, o, expected, by_nccl);
        if (json) write_json(times, backend, o, layout, run, *json);
        std::fflush(stdout);
    });
    check_sums(comm, times.trouble);
    check_bandwidth(times, o, layout.ranks);
}

}  // namespace

OptionGroups options_of_comm_test() {
    CommTestOptions unused;
    return one_group(description(unused));
}

int comm_test(Comm& comm, const std::vector<std::string>& args) {
    CommTestOptions o;
    comm.together([&] {
        o = parse_comm_test(args);
        check_world(comm);
    });
    const RankLayout layout = layout_of(comm);
    std::optional<Cluster> cluster;
    std::optional<HeldPlace> json;
    comm.together([&] {
        check_layout(o, layout);
        if (!o.cluster.empty()) cluster = read_cluster_for(o.cluster, layout);
        if (comm.root() && !o.json.empty()) check_place(json.emplace(o.json));  // before minutes are spent on measuring
    });
    Watchdog watchdog(comm, 300);
    BackendOptions how;
    how.threads = 1;
    how.share_device = o.share;
    how.capture = comm.size() > 1;  // with one rank there is nothing to capture
    const std::unique_ptr<Backend> backend = make_backend(o.device, how, comm);
    const std::vector<std::string> places = comm.gather_all(comm.host() + ": " + backend->facts().device);
    if (comm.root() && o.lines == AllReduceLines::plain)
        for (int rank = 0; rank < comm.size(); ++rank) std::printf("# rank %d on %s\n", rank, places[rank].c_str());
    if (const std::string transport = backend->facts().transport;
        comm.root() && o.lines == AllReduceLines::plain && !transport.empty())
        std::printf("# sums by %s\n", transport.c_str());
    std::fflush(stdout);
    if (o.steps > 0)
        all_reduce_small_numbers(comm, *backend,
                                 {.steps = o.steps, .sleep = o.sleep, .seed = uint64_t(o.seed), .lines = o.lines});
    if (!o.sizes.empty()) measure(comm, *backend, o, layout, cluster, args, json);
    return 0;
}

}  // namespace convoy
