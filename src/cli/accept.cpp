// convoy accept: is this cluster right? Runs levels of tests on all ranks, and ends with one
// verdict and the hosts to drain.
#include <algorithm>
#include <ctime>
#include <optional>

#include "accept/endurance.h"
#include "accept/figures_file.h"
#include "accept/fingerprints.h"
#include "accept/input.h"
#include "accept/inventory.h"
#include "accept/page.h"
#include "accept/reports.h"
#include "accept/speed.h"
#include "accept/sums.h"
#include "base/durable.h"
#include "base/folder.h"
#include "base/input_file.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/accept_options.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/train_steps.h"
#include "cli/versions.h"
#include "comm/preflight.h"
#include "comm/watchdog.h"
#include "report/cluster_file.h"
#include "run/run_folder.h"

namespace convoy {
namespace {

constexpr const char* json_name = "accept.json";

/// The files that the options name.
struct AcceptInputs {
    Fingerprints known;
    std::optional<Cluster> cluster;
    std::optional<HeldPlace> saved;  ///< the file of --save-fingerprint, on rank 0
};

/// Reads and checks the files before minutes are spent on levels.
AcceptInputs inputs_of(const AcceptOptions& o, const RankLayout& layout, bool root) {
    AcceptInputs inputs;
    if (!o.data.empty()) files_to_read(o.data);
    if (!o.fingerprints.empty()) inputs.known = read_fingerprints(o.fingerprints);
    if (!o.cluster.empty()) inputs.cluster = read_cluster_for(o.cluster, layout);
    if (root && !o.save_fingerprint.empty()) check_place(inputs.saved.emplace(o.save_fingerprint));
    return inputs;
}

/// Returns the trainings of the level `bits`. Their batch grows with the ranks, because each rank
/// trains at least one image.
std::vector<BitsCase> cases_of(AcceptExtent extent, int ranks, bool gpu) {
    const int64_t batch = std::max(8, ranks), times = extent == AcceptExtent::thorough ? 10 : 1;
    std::vector<BitsCase> cases = {{"mnist-conv", 28, batch, 5 * times}};
    constexpr int most_cpu_ranks = 16;  // with more ranks on the CPUs of a machine, large models take minutes
    if (!gpu && ranks > most_cpu_ranks) return cases;
    if (extent == AcceptExtent::quick) {
        cases.push_back({"resnet18", 32, batch, 2});
        return cases;
    }
    cases.push_back({"resnet50", gpu ? 224 : 32, batch, 3 * times});
    cases.push_back({"pyramidnet", 32, batch, 2 * times});
    return cases;
}

SpeedCase speed_of(AcceptExtent extent, bool gpu) {
    SpeedCase c{gpu ? "resnet50" : "resnet18", gpu ? 224 : 32, gpu ? 64 : 4};
    if (extent == AcceptExtent::quick) c.steps = 10;
    if (extent == AcceptExtent::thorough) c.steps = 200;
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

/// The folder of the reports, on rank 0 only. A lock refuses a second acceptance. The folder is
/// opened once, because its path may lead elsewhere later.
class ReportsFolder {
public:
    explicit ReportsFolder(const AcceptOptions& o) : folder_(path_of(o), true, false), run_(folder_.files().run()) {}

    std::string shown() const { return run_.shown(); }
    /// Returns the text of accept.json.
    std::string results() const {
        return run_.named([&] {
            return text_of_input(run_.path(json_name), most_bytes_of_acceptance, "run again without --resume");
        });
    }
    /// Writes the levels that have ended. They stay if the acceptance is killed later.
    void write(const Acceptance& a) const {
        write("report.html", acceptance_page(a));
        write("junit.xml", acceptance_junit(a));
        write("accept.prom", acceptance_prometheus(a));
        replace_file({run_, "metrics.h5"}, acceptance_metrics(a, run_.shown("metrics.h5")));
        write(json_name, acceptance_json(a));  // last, because a resumed acceptance begins with it
    }

private:
    static std::string path_of(const AcceptOptions& o) {
        if (!o.resume) return make_run_folder(o.output.empty() ? default_run_folder("accept") : o.output);
        if (!is_there(o.output + "/" + json_name))
            fail(Exit::bad_input, o.output + "/" + json_name +
                                      ": is not there; give the folder of an acceptance that was not finished, or "
                                      "leave out --resume");
        return o.output;
    }
    void write(const char* name, const std::string& text) const {
        replace_file({run_, name}, {text.begin(), text.end()});
    }

    RunFolder folder_;
    HeldFolder run_;
};

/// Runs one level. Collective.
LevelResult run_level(const std::string& name, Comm& comm, const AcceptOptions& o, const DeviceChoice& device,
                      Backend& backend, const AcceptInputs& inputs, Fingerprints& seen) {
    const Phase phase(comm.activity(), std::ranges::find(level_names(), name)->c_str());
    const bool gpu = !backend.facts().synchronous;
    const Cluster* cluster = inputs.cluster ? &*inputs.cluster : nullptr;
    if (name == "inventory")
        return inventory_level(comm, versions_of_run(backend), environment_of_run(backend), backend.health());
    if (name == "sums")
        return sums_level(comm, device, size_t(gpu ? 64 : 4) << 20, o.extent == AcceptExtent::quick ? 5 : 20, cluster);
    if (name == "bits") return bits_level(comm, device, cases_of(o.extent, comm.size(), gpu), inputs.known, &seen);
    if (name == "speed") return speed_level(comm, device, speed_of(o.extent, gpu), cluster);
    if (name == "input") return input_level(comm, o.data, int64_t(o.extent == AcceptExtent::quick ? 1 : 8) << 30);
    return endurance_level(comm, device, backend, cases_of(o.extent, comm.size(), gpu).front(), o.minutes);
}

/// Returns the results before the first level, or those of the acceptance that is continued.
/// Collective.
Acceptance begin(Comm& comm, const AcceptOptions& o, const RankLayout& layout, const std::string& device,
                 const std::optional<ReportsFolder>& folder, Terminal& terminal) {
    Acceptance results{.version = version,
                       .commit = commit(),
                       .began = utc_now(),
                       .host = comm.broadcast(comm.host()),
                       .nodes = layout.hosts,
                       .ranks = layout.ranks,
                       .levels = {},
                       .not_run = o.levels,
                       .hosts = comm.gather_all(comm.host()),
                       .options = o.recorded(device)};
    if (o.resume) {
        // The file has no fingerprints, so the level `bits` runs again if they are to be saved.
        const std::set<std::string> again =
            o.save_fingerprint.empty() ? std::set<std::string>{} : std::set<std::string>{"bits"};
        const std::string file = o.output + "/" + json_name;
        // Only rank 0 reads the file, because the figures of all pairs of hosts may be large.
        comm.together([&] {
            if (folder) continue_from(read_acceptance(folder->results(), file), file, again, results);
        });
        const std::string outline = comm.broadcast(folder ? acceptance_json(outline_of(results)) : "");
        if (!folder) results = read_acceptance(outline, file);
        terminal.line(formatted("continues %s: %zu of %zu levels have ended", file.c_str(), results.levels.size(),
                                o.levels.size()));
    }
    return results;
}

/// Saves the bits that were found. Collective. After a failing verdict, only warns if they cannot
/// be saved, because the exit code must then be that of the verdict.
void save_bits(Comm& comm, const AcceptInputs& inputs, const Fingerprints& seen, bool failed, Terminal& terminal) try {
    comm.together([&] {
        if (inputs.saved) save_fingerprints(*inputs.saved, seen);
    });
} catch (const Error& error) {
    if (!failed) throw;
    terminal.warning(error.what());
}

void print_lines(Terminal& terminal, const std::string& text) {
    for (const std::string& line : split(text, '\n')) terminal.line(line);
}

/// Prints version, ranks and device. Notes if a cluster file has other numbers of nodes or ranks.
void print_head(Terminal& terminal, const RankLayout& layout, const Backend& backend, const AcceptInputs& inputs) {
    terminal.line(formatted("convoy %s (%s): %d rank%s on %d node%s, %s", version, commit(), layout.ranks,
                            layout.ranks == 1 ? "" : "s", layout.hosts, layout.hosts == 1 ? "" : "s",
                            backend.facts().device.c_str()));
    if (!inputs.cluster) return;
    const Cluster& c = *inputs.cluster;
    if (c.nodes != layout.hosts || c.ranks_per_node != layout.ranks_per_host)
        terminal.line(
            formatted("%s describes %d nodes with %d GPUs each; this is compared with %d of its nodes and %d "
                      "of their GPUs",
                      c.name.c_str(), c.nodes, c.ranks_per_node, layout.hosts, layout.ranks_per_host));
}

}  // namespace

OptionGroups options_of_accept() {
    AcceptOptions unused;
    return one_group(description(unused));
}

int accept(Comm& comm, const std::vector<std::string>& args) {
    AcceptOptions o;
    AcceptInputs inputs;
    Fingerprints seen;
    const RankLayout layout = layout_of(comm);
    comm.together([&] {
        o = parse_accept(args);
        check_world(comm);
        inputs = inputs_of(o, layout, comm.root());
    });
    if (std::ranges::count(o.levels, "inventory") > 0)
        check_same_convoy(comm);  // the level inventory reports libraries that differ, and names their hosts
    else
        check_same_program(comm);
    Terminal terminal(stdout, comm.root());
    // A log gets progress once a minute only, because more lines would hide those of the levels.
    const Heartbeat heartbeat(comm.activity(), terminal, terminal.replaces() ? 5 : 60);
    Watchdog watchdog(comm, 600);
    BackendOptions all;
    all.share_device = o.share;
    const std::unique_ptr<Backend> backend = make_backend(o.device, all, comm);
    const bool gpu = !backend->facts().synchronous;
    const DeviceChoice device{gpu ? "cuda" : "cpu", backend->facts().threads, comm.local_rank(), o.share};
    std::optional<ReportsFolder> folder;
    comm.together([&] {
        if (comm.root()) folder.emplace(o);
    });
    print_head(terminal, layout, *backend, inputs);
    Acceptance results = begin(comm, o, layout, device.device, folder, terminal);
    const auto write = [&] {
        comm.together([&] {
            if (folder) folder->write(results);
        });
    };
    write();
    if (folder)
        terminal.line("results: " + folder->shown() + "; an acceptance that was stopped continues with --output " +
                      folder->shown() + " --resume");
    for (const LevelResult& level : results.levels) print_lines(terminal, level_text(level));
    while (!results.not_run.empty()) {
        results.levels.push_back(run_level(results.not_run.front(), comm, o, device, *backend, inputs, seen));
        results.not_run.erase(results.not_run.begin());
        print_lines(terminal, level_text(results.levels.back()));
        write();
        if (results.levels.back().outcome == Outcome::fail && !results.not_run.empty())
            terminal.line("next: " + joined(results.not_run, ", ") +
                          ", which may take long on a bad network or node; if you stop here, " +
                          results.levels.back().level + " is in the results");
    }
    print_lines(terminal, verdict_text(results.levels));
    if (folder)
        terminal.line("report: " + folder->shown() +
                      "/report.html; also accept.json, junit.xml, accept.prom, metrics.h5");
    const bool failed = verdict_of(results.levels) == Outcome::fail;
    save_bits(comm, inputs, seen, failed, terminal);
    return failed ? int(Exit::not_accepted) : int(Exit::done);
}

}  // namespace convoy
