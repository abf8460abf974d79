// convoy accept: is this cluster right? Runs levels of tests on all ranks, and ends with one
// verdict and the hosts to drain.
#include <algorithm>
#include <ctime>
#include <optional>

#include "accept/bits.h"
#include "accept/fingerprints.h"
#include "accept/input.h"
#include "accept/inventory.h"
#include "accept/reports.h"
#include "accept/speed.h"
#include "accept/sums.h"
#include "base/durable.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/train_steps.h"
#include "cli/versions.h"
#include "comm/preflight.h"
#include "comm/watchdog.h"
#include "run/run_folder.h"

namespace convoy {
namespace po = boost::program_options;
namespace {

enum class Extent { quick, standard, thorough };

struct AcceptOptions {
    std::string only, extent_text, device, data, output, fingerprints, save_fingerprint;
    Extent extent = Extent::standard;
    std::vector<std::string> levels;
    double minutes = 0;
    bool share = false;
};

const std::vector<std::string>& all_levels() {
    static const std::vector<std::string> names = {"inventory", "sums", "bits", "speed", "input", "endurance"};
    return names;
}

Choices<Extent> extents() {
    return {{"quick", Extent::quick}, {"standard", Extent::standard}, {"long", Extent::thorough}};
}

po::options_description description(AcceptOptions& o) {
    const auto text = [](std::string& to, const char* standard, const char* name) {
        return po::value<std::string>(&to)->default_value(standard, standard)->value_name(name);
    };
    po::options_description options;
    auto add = options.add_options();
    add("level", text(o.extent_text, "standard", "HOW"), "quick, standard or long: how much each level does");
    add("only", text(o.only, "", "LEVELS"), "some levels only, as in sums,bits (default: all that apply)");
    add("data", text(o.data, "", "DIR"), "folder that will hold the data: the level input reads its files");
    add("minutes", po::value<double>(&o.minutes)->default_value(0)->value_name("N"),
        "endurance: repeat the training of bits for so long, and compare each step");
    add("output", text(o.output, "", "DIR"),
        "folder for accept.json, junit.xml and accept.prom (default output/accept-DATE-TIME)");
    add("fingerprints", text(o.fingerprints, "", "FILE"),
        "bits that kinds of devices are known to give, as --save-fingerprint writes them");
    add("save-fingerprint", text(o.save_fingerprint, "", "FILE"),
        "add the bits that were found to this file, unless they are wrong");
    add("device", text(o.device, "auto", "KIND"), "auto, cuda or cpu");
    add("share-device", po::bool_switch(&o.share), "let several ranks use one GPU");
    return options;
}

AcceptOptions parse_accept(const std::vector<std::string>& args) {
    AcceptOptions o;
    const po::variables_map values = parse(description(o), args);
    o.extent = choose("level", o.extent_text, extents());
    if (!(o.minutes >= 0 && o.minutes <= 1e5))
        fail(Exit::usage, formatted("--minutes %g: must be from 0 to 100000", o.minutes));
    for (const std::string& name : split(o.only, ',')) {
        if (std::ranges::count(all_levels(), name) == 0)
            fail(Exit::usage,
                 "--only " + o.only + ": there is no level '" + name + "'; choose of " + joined(all_levels(), ", "));
        if (std::ranges::count(o.levels, name) == 0) o.levels.push_back(name);
    }
    const auto asked = [&](const char* name) { return std::ranges::count(o.levels, name) > 0; };
    if (asked("input") && o.data.empty()) fail(Exit::usage, "--only input needs --data: the folder to read");
    if (!o.save_fingerprint.empty() && !o.levels.empty() && !asked("bits"))
        fail(Exit::usage, "--save-fingerprint needs the level bits; add it to --only");
    if (asked("endurance") && o.minutes == 0) fail(Exit::usage, "--only endurance needs --minutes");
    if (o.levels.empty())
        for (const std::string& name : all_levels())
            if ((name != "input" || !o.data.empty()) && (name != "endurance" || o.minutes > 0))
                o.levels.push_back(name);
    return o;
}

/// Each rank trains at least one image, so the batch grows with the ranks.
std::vector<BitsCase> cases_of(Extent extent, int ranks, bool gpu) {
    const int64_t batch = std::max(8, ranks), times = extent == Extent::thorough ? 10 : 1;
    std::vector<BitsCase> cases = {{"mnist-conv", 28, batch, 5 * times}};
    constexpr int most_cpu_ranks = 16;  // more ranks on CPUs are many on one machine: large models take minutes
    if (!gpu && ranks > most_cpu_ranks) return cases;
    if (extent == Extent::quick) {
        cases.push_back({"resnet18", 32, batch, 2});
        return cases;
    }
    cases.push_back({"resnet50", gpu ? 224 : 32, batch, 3 * times});
    cases.push_back({"pyramidnet", 32, batch, 2 * times});
    return cases;
}

SpeedCase speed_of(Extent extent, bool gpu) {
    SpeedCase c{gpu ? "resnet50" : "resnet18", gpu ? 224 : 32, gpu ? 64 : 4};
    if (extent == Extent::quick) c.steps = 10;
    if (extent == Extent::thorough) c.steps = 200;
    return c;
}

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

void print_lines(Terminal& terminal, const std::string& text) {
    for (const std::string& line : split(text, '\n')) terminal.line(line);
}

/// Writes what there is so far: a run that is killed leaves the levels before.
void write_reports(const HeldFolder& folder, const Acceptance& a) {
    const auto write = [&](const char* name, const std::string& text) {
        replace_file({folder, name}, {text.begin(), text.end()});
    };
    write("accept.json", acceptance_json(a));
    write("junit.xml", acceptance_junit(a));
    write("accept.prom", acceptance_prometheus(a));
}

/// Runs one level. Collective.
LevelResult run_level(const std::string& name, Comm& comm, const AcceptOptions& o, const DeviceChoice& device,
                      Backend& backend, const Fingerprints& known, Fingerprints& seen) {
    const bool gpu = !backend.facts().synchronous;
    if (name == "inventory")
        return inventory_level(comm, versions_of_run(backend), environment_of_run(backend), backend.health());
    if (name == "sums") return sums_level(comm, device, size_t(gpu ? 64 : 4) << 20, o.extent == Extent::quick ? 5 : 20);
    if (name == "bits") return bits_level(comm, device, cases_of(o.extent, comm.size(), gpu), known, &seen);
    if (name == "speed") return speed_level(comm, device, speed_of(o.extent, gpu));
    if (name == "input") return input_level(comm, o.data, int64_t(o.extent == Extent::quick ? 1 : 8) << 30);
    return endurance_level(comm, device, cases_of(o.extent, comm.size(), gpu).front(), o.minutes);
}

}  // namespace

OptionGroups options_of_accept() {
    AcceptOptions unused;
    return one_group(description(unused));
}

int accept(Comm& comm, const std::vector<std::string>& args) {
    AcceptOptions o;
    Fingerprints known, seen;
    std::optional<HeldPlace> saved;
    comm.together([&] {
        o = parse_accept(args);
        check_world(comm);
        if (!o.data.empty()) files_to_read(o.data);  // before minutes are spent on other levels
        if (!o.fingerprints.empty()) known = read_fingerprints(o.fingerprints);
        if (comm.root() && !o.save_fingerprint.empty()) check_place(saved.emplace(o.save_fingerprint));
    });
    check_same_program(comm);
    Terminal terminal(stdout, comm.root());
    const Heartbeat heartbeat(comm.activity(), terminal);
    Watchdog watchdog(comm, 600);
    BackendOptions all;
    all.share_device = o.share;
    const std::unique_ptr<Backend> backend = make_backend(o.device, all, comm);
    const bool gpu = !backend->facts().synchronous;
    const DeviceChoice device{gpu ? "cuda" : "cpu", backend->facts().threads, comm.local_rank(), o.share};
    std::optional<HeldFolder> folder;  // opened once: its path may lead elsewhere later
    comm.together([&] {
        if (comm.root()) folder.emplace(make_run_folder(o.output.empty() ? default_run_folder("accept") : o.output));
    });
    Acceptance results{.version = version,
                       .commit = commit(),
                       .began = utc_now(),
                       .host = comm.host(),
                       .nodes = int(comm.sum(int64_t(comm.local_rank() == 0))),
                       .ranks = comm.size(),
                       .levels = {},
                       .not_run = o.levels};
    terminal.line(formatted("convoy %s (%s): %d rank%s on %d node%s, %s", version, commit(), comm.size(),
                            comm.size() == 1 ? "" : "s", results.nodes, results.nodes == 1 ? "" : "s",
                            backend->facts().device.c_str()));
    for (const std::string& name : o.levels) {
        results.levels.push_back(run_level(name, comm, o, device, *backend, known, seen));
        results.not_run.erase(results.not_run.begin());
        print_lines(terminal, level_text(results.levels.back()));
        comm.together([&] {
            if (folder) write_reports(*folder, results);
        });
    }
    print_lines(terminal, verdict_text(results.levels));
    if (folder) terminal.line("report: " + folder->shown() + "/accept.json, junit.xml, accept.prom");
    comm.together([&] {
        if (saved) save_fingerprints(*saved, seen);
    });
    return verdict_of(results.levels) == Outcome::fail ? int(Exit::not_accepted) : int(Exit::done);
}

}  // namespace convoy
