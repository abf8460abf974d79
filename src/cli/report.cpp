// convoy report: summarises runs from their metric files, in a table or paragraphs.
#include <cstdio>

#include "base/project.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/train_options.h"
#include "report/cluster_file.h"
#include "report/expected.h"
#include "report/summary.h"

namespace convoy {
namespace {
namespace po = boost::program_options;

constexpr const char* published_file = "output/published/resnet50-v100.csv";
constexpr const char* published_runs_file = "output/published/pyramidnet-p100.csv";

Format format_of(const std::string& text) {
    if (text == "text") return Format::text;
    if (text == "markdown") return Format::markdown;
    if (text == "csv") return Format::csv;
    if (text == "json") return Format::json;
    fail(Exit::usage, "--format " + text + " is unknown; choose text, markdown, csv or json");
}

/// Returns the published figures of the given file, or of the checkout's file if it is found.
std::vector<ScalingRun> published(const std::string& given) {
    if (!given.empty()) return read_published(given);
    if (const std::string path = project_file(published_file); !path.empty()) return read_published(path);
    std::fprintf(stderr, "warning: %s is not there: the published figures are left out\n", published_file);
    return {};
}

/// Converts runs to cells. Leaves out, with a warning, runs that ran out of memory on an unknown
/// number of ranks.
std::vector<ScalingRun> scaling_runs(const std::vector<RunSummary>& runs) {
    std::vector<ScalingRun> cells;
    for (const RunSummary& s : runs) {
        if (s.out_of_memory.empty() || (s.ranks > 0 && s.batch_per_rank > 0)) {
            cells.push_back(as_scaling_run(s));
            continue;
        }
        std::fprintf(
            stderr,
            "warning: %s ran out of memory, but neither its file oom nor its name, as in 2n16g-b128-r3, says on "
            "how many ranks and with which batch: it is left out\n",
            s.run.c_str());
    }
    return cells;
}

struct ReportOptions {
    std::string format, published, cluster;
    bool scaling = false;
};

po::options_description description(ReportOptions& o) {
    po::options_description options;
    options.add_options()  //
        ("run", po::value<std::vector<std::string>>()->value_name("RUN"),
         "a run folder or its metrics.h5; also several, as plain arguments")  //
        ("scaling", po::bool_switch(&o.scaling),
         "samples/s, speed-up and efficiency by nodes, ranks and batch, from medians over repeats")  //
        ("format", po::value<std::string>(&o.format)->default_value("text")->value_name("KIND"),
         "text, markdown, csv or json")  //
        ("published", po::value<std::string>(&o.published)->value_name("FILE"),
         "published figures for the table of --scaling (default output/published/resnet50-v100.csv)")  //
        ("cluster", po::value<std::string>(&o.cluster)->value_name("FILE"),
         "with --scaling: what the machines of this cluster file should have given, from the cell with the fewest "
         "ranks");
    return options;
}

}  // namespace

OptionGroups options_of_report() {
    ReportOptions unused;
    return one_group(description(unused));
}

int report(const std::vector<std::string>& args) {
    ReportOptions o;
    const po::variables_map values = parse(description(o), args, po::positional_options_description().add("run", -1));
    const Format format = format_of(o.format);
    if (!o.published.empty() && !o.scaling)
        fail(Exit::usage, "--published is for --scaling; leave it out, or add --scaling");
    if (!o.cluster.empty() && !o.scaling)
        fail(Exit::usage, "--cluster is for --scaling; leave it out, or add --scaling");
    if (!values.count("run")) fail(Exit::usage, "which run? convoy report RUN..., the folders of runs");
    std::vector<RunSummary> runs;
    for (const std::string& run : values["run"].as<std::vector<std::string>>()) runs.push_back(summarise(run));
    if (!o.scaling) {
        compare(runs, default_options());
        if (const std::string path = project_file(published_runs_file); !path.empty())
            add_published(runs, read_published_runs(path));
        std::fputs(summaries_as(runs, format).c_str(), stdout);
        return 0;
    }
    std::vector<ScalingCell> cells = scaling_cells(scaling_runs(runs), published(o.published));
    if (!o.cluster.empty()) add_expected(cells, read_cluster(o.cluster));
    std::fputs(scaling_as(cells, format).c_str(), stdout);
    return 0;
}

}  // namespace convoy
