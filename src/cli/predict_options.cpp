#include "cli/predict_options.h"

#include <algorithm>
#include <set>

#include "base/shell_word.h"
#include "base/text.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/option_table.h"
#include "data/image_names.h"

namespace convoy {
namespace {
namespace po = boost::program_options;

constexpr int most_ranks = 1 << 20;

Choices<Format> formats() {
    return {{"text", Format::text}, {"markdown", Format::markdown}, {"csv", Format::csv}, {"json", Format::json}};
}

Shape parse_images(const std::string& option, const std::string& text) {
    return text.empty() ? Shape{0, 0, 0, 0} : parse_image_size(option, text);
}

/// Returns "31ms" in seconds; 0 if the text is not a time.
double parse_step_time(const std::string& text) {
    size_t used = 0;
    double seconds = 0;
    try {
        seconds = std::stod(text, &used);
    } catch (const std::exception&) {
        return 0;
    }
    const std::string unit = text.substr(used);
    if (unit == "ms") seconds *= 1e-3;
    if (unit == "us") seconds *= 1e-6;
    const bool known = unit.empty() || unit == "s" || unit == "ms" || unit == "us";
    return known && seconds >= 1e-6 && seconds < 1e6 ? seconds : 0;
}

/// Returns a whole number from 1; 0 if the text is not one.
int64_t parse_count(const std::string& text) {
    const bool digits = !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == std::string::npos;
    return digits ? std::stoll(text) : 0;
}

/// Returns ranks from `low` to `high`: powers of two within a node, then 1, 2, 4 … whole nodes.
std::set<int> doubled(int64_t low, int64_t high, int ranks_per_node) {
    std::set<int> ranks;
    for (int64_t n = 1; n < ranks_per_node; n *= 2)
        if (n >= low && n <= high) ranks.insert(int(n));
    for (int64_t n = ranks_per_node; n <= high; n *= 2)
        if (n >= low) ranks.insert(int(n));
    return ranks;
}

}  // namespace

std::vector<MeasuredStep> parse_steps(const std::string& text, int64_t batch) {
    std::vector<MeasuredStep> steps;
    for (const std::string& word : split(text, ',')) {
        const size_t colon = word.find(':');
        const bool has_batch = colon != std::string::npos;
        MeasuredStep s{.batch = has_batch ? parse_count(word.substr(0, colon)) : batch, .source = "--step"};
        s.seconds = parse_step_time(has_batch ? word.substr(colon + 1) : word);
        if (s.batch < 1 || s.seconds <= 0)
            fail(Exit::usage, "--step " + text + ": '" + word +
                                  "' is no time of a step; write 31ms, or BATCH:TIME several times, as in "
                                  "64:31ms,128:58ms");
        steps.push_back(s);
    }
    return steps;
}

std::vector<int> ranks_to_predict(const std::string& text, int ranks_per_node, int nodes) {
    const auto refuse = [&](const std::string& why) { fail(Exit::usage, "--ranks " + text + ": " + why); };
    std::set<int> ranks;
    if (const size_t dots = text.find(".."); text.empty()) {
        ranks = doubled(1, int64_t(ranks_per_node) * nodes, ranks_per_node);
        ranks.insert(ranks_per_node * nodes);
    } else if (dots != std::string::npos) {
        const int64_t low = parse_count(text.substr(0, dots)), high = parse_count(text.substr(dots + 2));
        if (low < 1 || high < low || high > most_ranks) refuse("write a range as 1..1024");
        ranks = doubled(low, high, ranks_per_node);
        if (ranks.empty()) refuse("no power of two and no whole node is within it");
    } else {
        for (const std::string& word : split(text, ',')) {
            const int64_t n = parse_count(word);
            if (n < 1 || n > most_ranks) refuse("'" + word + "' is no number of ranks; write 1..1024, or 1,2,4,8");
            ranks.insert(int(n));
        }
    }
    for (const int n : ranks)
        if (n > ranks_per_node && n % ranks_per_node != 0)
            refuse(formatted("%d ranks do not fill nodes of %d; choose %d or %d", n, ranks_per_node,
                             n / ranks_per_node * ranks_per_node, (n / ranks_per_node + 1) * ranks_per_node));
    return {ranks.begin(), ranks.end()};
}

namespace {

OptionTable table_of(PredictOptions& o, std::string& step) {
    OptionTable t;
    t.text("model", o.model, "", "NAME", "as in train");
    t.count("batch-per-rank", o.batch, 1 << 24, "N", "images of a step on each rank");
    t.text("cluster", o.cluster, "", "FILE", "the machines: jobs/site/*.cluster, or one of your own");
    t.text("step", step, "", "TIME",
           "of a step on one rank: 31ms, or of several batches 64:31ms,128:58ms (default: as --from, or as the cluster "
           "file says)");
    t.text("ranks", o.ranks, "", "RANGE",
           "1..1024 (powers of two, then whole nodes), or 1,2,4,8 (default: from one to all of the cluster)");
    t.text("precision", o.precision, "", "KIND", "which of the cluster file's steps to take (default: its first)");
    t.whole("gradient-bytes", o.gradient_bytes, 4, {1, 8}, "N",
            "of an element that is summed: 4, or 2 with --bf16-gradients");
    t.number("bucket-mib", o.bucket_mib, 0, {0, 4096}, "MIB", "as in train; 4096: one all-reduce, after backward");
    t.parsed("image-size", o.images, "", parse_images, "HxWxC",
             "of images (default: 224x224x3 for resnets, else the model's usual)");
    t.whole("classes", o.classes, 0, {0, 1 << 20}, "N", "(default: 1000 for resnets, else 10)");
    t.choice("format", o.format, "text", formats(), "KIND", "{}");
    t.text("as", o.as, "", "PROGRAM", "reframe: print what to expect as JSON, for the tests of jobs/reframe/convoy.py");
    t.text("system", o.system, "*", "NAME", "with --as: ReFrame's SYSTEM:PARTITION of these machines; *: any");
    t.text("plot", o.plot, "", "FILE.png", "draw the prediction, too, with src/plot/plot.py");
    t.flag("explain", o.explain, "print every term, and every bucket's sum");
    return t;
}

po::options_description description(const OptionTable& table, PredictOptions& o) {
    po::options_description options = table.description();
    options.add_options()("from", po::value<std::vector<std::string>>(&o.from)->composing()->value_name("FILE"),
                          "measured steps: run folders, JSON files of bench, tables as CSV; also as plain arguments");
    return options;
}

}  // namespace

OptionGroups options_of_predict() {
    PredictOptions unused;
    std::string step;
    return one_group(description(table_of(unused, step), unused));
}

PredictOptions parse_predict(const std::vector<std::string>& args) {
    PredictOptions o;
    std::string step;
    const OptionTable table = table_of(o, step);
    const po::variables_map values =
        parse(description(table, o), args, po::positional_options_description().add("from", -1));
    table.read(values);
    for (const std::string& from : o.from)
        if (is_image_name(from))
            fail(Exit::usage, from + ": predict is about clusters; for pictures: convoy classify --model-file FILE " +
                                  shell_word(from));
    if (o.model.empty()) fail(Exit::usage, "which model? give --model, as in train");
    if (o.batch < 1) fail(Exit::usage, "which batch? give --batch-per-rank, the images of a step on each rank");
    if (o.cluster.empty()) fail(Exit::usage, "on which machines? give --cluster, as jobs/site/dgx-h100.cluster");
    if (o.explain && o.format != Format::text)
        fail(Exit::usage, "--explain is for people; leave it out, or leave out --format: JSON and CSV have every term");
    if (!o.as.empty()) choose("as", o.as, Choices<bool>{{"reframe", true}});
    if (!o.as.empty() && (o.explain || o.format != Format::text))
        fail(Exit::usage,
             "--as reframe prints JSON for ReFrame; leave out " + std::string(o.explain ? "--explain" : "--format"));
    if (o.as.empty() && !values["system"].defaulted())
        fail(Exit::usage, "--system is for --as reframe; leave it out, or add --as reframe");
    if (printable(o.system) != o.system)
        fail(Exit::usage, "--system " + o.system +
                              ": has control characters or is not UTF-8; give SYSTEM:PARTITION as ReFrame's settings "
                              "name them");
    if (!o.precision.empty()) choose("precision", o.precision, precision_choices());
    if (o.bucket_mib > 0 && o.bucket_mib < 0.001)
        fail(Exit::usage, formatted("--bucket-mib %g is less than 0.001; 0 means by the links", o.bucket_mib));
    o.steps = parse_steps(step, o.batch);
    if (!o.steps.empty() && !o.from.empty())
        fail(Exit::usage, "--step and --from both say what a step takes; leave one out");
    return o;
}

}  // namespace convoy
