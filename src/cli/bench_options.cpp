#include "cli/bench_options.h"

#include <algorithm>

#include "cli/commands.h"
#include "cli/option_values.h"
#include "model/models.h"
#include "run/configuration.h"

namespace convoy {
namespace {

constexpr int64_t usually_profiled = 10;

Choices<BenchLines> formats() {
    return {{"plain", BenchLines::plain},
            {"tf-cnn", BenchLines::tf_cnn, "those of tf_cnn_benchmarks"},
            {"horovod", BenchLines::horovod, "those of Horovod's synthetic benchmark, ten steps each"}};
}

void add_log_format(OptionTable& t, BenchOptions& b) {
    t.text("log-format", b.log_format, "plain", "KIND",
           "lines above the JSON: " + help_of(formats()) + "; rates are of rank 0's steps, totals of all ranks");
}

void add_options(OptionTable& t, BenchOptions& b) {
    t.whole("classes", b.images.classes, 0, {0, 1 << 20}, "N", "of made-up images (default 10)");
    t.whole("warmup", b.steps.warmup, 20, {0, 1'000'000}, "STEPS", "first steps, which do not count");
    t.whole("steps", b.steps.measured, 100, {1, 10'000'000}, "STEPS", "steps to measure");
    t.whole(
        "profile-steps", b.steps.profiled, usually_profiled, {0, 10'000}, "STEPS",
        "further steps, run operation by operation; 0: none; logical ranks have none, because they run side by side");
    t.flag("frozen", b.steps.frozen,
           "measure steps as they are after --whitening-bias-epochs; else each trains all parameters");
    t.text("cluster", b.cluster, "", "FILE",
           "say, too, what the machines of this cluster file should give (jobs/site/*.cluster)");
    t.text(
        "timeline", b.timeline, "", "FILE",
        "write the median of 5 further steps as a trace of every rank: for Perfetto, or src/plot/timeline.py; on CPUs; "
        "replaces FILE");
}

/// Refuses options that have no meaning for logical ranks. Operations of logical ranks run side by
/// side, so none can be timed alone. Cluster files do not describe all-reduces of integers, which
/// logical ranks need.
void check_logical_ranks(const TrainOptions& o, BenchOptions& b) {
    if (o.virtual_ranks == 0 && o.accumulate == 0) return;
    const std::string asked = o.accumulate > 0 ? "--accumulate" : "--virtual-ranks";
    const auto refuse = [&](const std::string& option) {
        fail(Exit::usage, option + " does not apply to logical ranks (" + asked + "); leave one of them out");
    };
    if (!b.timeline.empty()) refuse("--timeline");
    if (!b.cluster.empty()) refuse("--cluster");
    if (b.steps.profiled > 0 && b.steps.profiled != usually_profiled) refuse("--profile-steps");
    b.steps.profiled = 0;
}

OptionsOf command(BenchOptions& b) {
    return {.command = "bench",
            .output = "folder for metrics.h5 (default: nothing is written)",
            .batch_size = 0,
            .more = [&](OptionTable& t) { add_options(t, b); },
            .log_format = [&](OptionTable& t) { add_log_format(t, b); },
            .without = {"resume",        "init-from",    "init-skip", "checkpoint-every",
                        "keep",          "time-limit",   "strict-io", "publish-every",
                        "metrics-every", "on-nan",       "audit",     "on-audit",
                        "epochs",        "max-steps",    "drop-last", "eval-every",
                        "eval-images",   "no-eval",      "tta",       "dry-run",
                        "chip",          "print-config", "log-dir",   "whitening-bias-epochs"},
            .needs_data = false};
}

/// Sets the format of lines. Ignores a recipe's format of training lines, which bench does not
/// have.
void choose_lines(ParsedOptions& parsed, BenchOptions& b) {
    const auto given = parsed.given.find("log-format");
    const std::vector<std::string> of_training = names_of(log_formats());
    if (given != parsed.given.end() && !given->second.file.empty() &&
        std::find(of_training.begin(), of_training.end(), b.log_format) != of_training.end()) {
        b.log_format = "plain";
        set_config_value(parsed.resolved, "log-format", b.log_format);
    }
    b.lines = choose("log-format", b.log_format, formats());
    if (b.lines == BenchLines::horovod && b.steps.measured % horovod_steps != 0)
        fail(Exit::usage, formatted("--log-format horovod: an iteration has %lld steps, so --steps %lld must be a "
                                    "multiple of it",
                                    (long long)horovod_steps, (long long)b.steps.measured));
}

}  // namespace

OptionGroups options_of_bench() {
    BenchOptions unused;
    return option_groups(command(unused));
}

ParsedOptions parse_bench(const std::vector<std::string>& args, BenchOptions& b) {
    ParsedOptions parsed = parse_train_options(args, command(b));
    const ImageSize& size = parsed.options.image_size;
    b.images.size = size.images;
    if (size.side > 0) b.images.size = {1, size.side, size.side, usual_images(parsed.options.model.name).c};
    if (!parsed.options.data.empty() && (size.images.h > 0 || b.images.classes > 0))
        fail(Exit::usage, std::string(size.images.h > 0 ? "--image-size HxWxC" : "--classes") +
                              " is for made-up images; leave it out, or leave out --data");
    check_logical_ranks(parsed.options, b);
    choose_lines(parsed, b);
    constexpr int64_t traced = 5;
    if (!b.timeline.empty()) b.steps.traced = traced;
    parsed.options.setup.drop_last = true;  // a smaller batch would be another measurement
    parse_checkpoint_clock("checkpoint-every", "none", parsed.options.setup);
    return parsed;
}

}  // namespace convoy
