// Prints what a training is going to do, before it starts and in --dry-run.
#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "base/version.h"
#include "cli/choices.h"
#include "cli/console.h"

namespace convoy {
namespace {

double mib(size_t bytes) { return double(bytes) / (1 << 20); }

std::string buckets_text(const std::vector<Bucket>& buckets) {
    std::string sizes;
    for (const Bucket& b : buckets)
        sizes += formatted("%s%.1f", sizes.empty() ? "" : " ", mib((b.end - b.begin) * sizeof(float)));
    return formatted("%zu of gradients, in backward order: %s MiB", buckets.size(), sizes.c_str());
}

std::string batch_text(const TrainSetup& s, const TrainingPrograms& t, int ranks) {
    const int64_t small = s.global_batch / ranks, large = small + (s.global_batch % ranks ? 1 : 0);
    const std::string a_rank =
        small == large ? std::to_string(small) : formatted("%lld or %lld", (long long)small, (long long)large);
    return formatted("%lld global, %s per rank; %lld steps per epoch%s; %lld steps in all", (long long)s.global_batch,
                     a_rank.c_str(), (long long)t.steps_per_epoch(),
                     t.tail() ? formatted(", the last of %lld samples", (long long)t.tail()).c_str() : "",
                     (long long)t.total_steps());
}

/// Describes the part of an image that the model sees.
std::string crop_text(const TrainSetup& s, const Graph& graph, const std::vector<EarlierGraph>& earlier) {
    std::string text = "squares of ";
    for (const EarlierGraph& e : earlier)
        text += formatted("%d pixels until epoch %lld, of ", e.graph.values[e.graph.input].h, (long long)e.until);
    text += formatted("%d pixels; ", graph.values[graph.input].h);
    const Augment& a = s.augment;
    const bool windows = a.crop == Crop::random_resized;
    if (windows)
        text += formatted("in training random windows of %g to %g %% of the area, resized; in evaluations ",
                          100 * double(a.scale_low), 100 * double(a.scale_high));
    else
        text += "in training and in evaluations ";
    if (s.preprocessing.short_side > 0)
        text +=
            formatted("the image resized to a short side of %d, and its centre cut out", s.preprocessing.short_side);
    else
        text += "the image as it is";
    return earlier.empty() || windows ? text : text + "; smaller squares show as much of it, resized";
}

/// Returns "; warm-up of 1.5 epochs, then cosine"; empty if the rate is constant.
std::string schedule_text(const Schedule& s) {
    const std::string kind = name_of(schedule_choices(), std::optional(s.kind));
    if (s.warmup_epochs > 0) return formatted("; warm-up of %g epochs, then %s", s.warmup_epochs, kind.c_str());
    return s.kind == Schedule::constant ? "" : "; " + kind;
}

}  // namespace

void Console::print_options(const ConfigPairs& config) {
    std::string line = "options  ";
    for (const auto& [key, value] : config) {
        if (value.empty()) continue;
        if (line.size() + key.size() + value.size() > 120) {
            terminal_.line(line);
            line = "         ";
        }
        line += " " + key + "=" + value;
    }
    terminal_.line(line);
}

void Console::print_data(const std::string& folder, const DataSet& train, const DataSet* test) {
    const SplitInfo& d = train.info();
    const double seconds = train.seconds() + (test ? test->seconds() : 0);
    const size_t bytes = d.image_bytes() + (test ? test->info().image_bytes() : 0);
    const std::string reading = seconds > 0 ? formatted("read in %.2f s", seconds) : formatted("%.1f MiB", mib(bytes));
    const std::string test_images = test ? std::to_string(test->info().images) : "no";
    note("data", formatted("%s: %lld training and %s test images of %s%dx%dx%d, %d classes; %s", folder.c_str(),
                           (long long)d.images, test_images.c_str(), d.ragged ? "up to " : "", d.height, d.width,
                           d.channels, d.classes, reading.c_str()));
}

void Console::warn_of_effects(const TrainSetup& s, int64_t images) {
    const int64_t steps = trainer_.programs().total_steps(), of_epoch = trainer_.programs().steps_per_epoch();
    const double epochs = double(steps) / double(of_epoch);
    if (s.global_batch > images)
        warning(
            formatted("a batch of %lld is more than the %lld training images: a step takes all of them, and an "
                      "epoch is one step; lower --batch-size or --batch-per-rank",
                      (long long)s.global_batch, (long long)images));
    if (s.schedule.warmup_epochs > epochs)
        warning(formatted(
            "--warmup-epochs %g: the run ends after %g epochs, at a rate of %g instead of %g; lower it, "
            "or raise --epochs",
            s.schedule.warmup_epochs, epochs, learning_rate(s.schedule, steps - 1, of_epoch, steps), s.schedule.base));
    if (s.schedule.kind == Schedule::step && s.schedule.step_epochs >= epochs)
        warning(
            formatted("--lr-step-epochs %g: the run ends after %g epochs, and the rate never drops; lower it, or "
                      "raise --epochs",
                      s.schedule.step_epochs, epochs));
    if (s.schedule.kind == Schedule::multistep && s.schedule.milestones.back() >= epochs)
        warning(
            formatted("--lr-milestones: the run ends after %g epochs, and the drop at epoch %g is not reached; "
                      "lower it, or raise --epochs",
                      epochs, s.schedule.milestones.back()));
}

void Console::print_setup(const ConfigPairs& config, const std::string& data_dir, const DataSet& train,
                          const DataSet* test, const Graph& graph, const TrainSetup& s, int ranks,
                          const SetupNotes& notes) {
    const TrainingPrograms& programs = trainer_.programs();
    terminal_.line(formatted("convoy %s (%s), %d rank%s", version, commit(), ranks, ranks == 1 ? "" : "s"));
    print_options(config);
    print_data(data_dir, train, test);
    if (s.augment.crop != Crop::shifted || !programs.earlier().empty())
        note("crop", crop_text(s, graph, programs.earlier()));
    note("model",
         formatted("%s: %s parameters, %.3f GFLOP per image forward (multiply-adds count two)%s", graph.model.c_str(),
                   grouped(graph.parameter_count()).c_str(), graph.flops_per_image() / 1e9, notes.stem.c_str()));
    if (!notes.weights.empty()) note("weights", notes.weights);
    if (!notes.trained.empty()) note("trained", notes.trained);
    size_t bytes = 0;
    for (size_t count : programs.state().counts()) bytes += count * sizeof(float);
    note("memory",
         formatted("%.1f MiB parameters, %.1f MiB gradients, %.1f MiB optimizer state, %.1f MiB activations per rank",
                   mib(programs.state().weights().bytes()), mib(bytes), mib(bytes) * s.optimizer.state_per_element(),
                   mib(programs.arena_bytes())));
    note("buckets", buckets_text(programs.buckets()));
    note("batch", batch_text(s, programs, ranks));
    const int64_t steps = programs.total_steps();
    const auto rate = [&](int64_t step) { return learning_rate(s.schedule, step, programs.steps_per_epoch(), steps); };
    note("rate", formatted("%g at first, %g at the end, base %g%s%s", rate(0), rate(steps - 1), s.schedule.base,
                           notes.rate.c_str(), schedule_text(s.schedule).c_str()));
    warn_of_effects(s, train.info().images);
    if (const int64_t every = steps_between_rows(steps, s.metrics_every); every > 1)
        note("metrics", formatted("of each %lldth step are kept, and of the last (--metrics-every); of all epochs and "
                                  "evaluations",
                                  (long long)every));
    const bool norms = std::any_of(graph.ops.begin(), graph.ops.end(),
                                   [](const Op& op) { return std::holds_alternative<BatchNorm>(op); });
    if (s.logical_ranks > 0)
        note("virtual",
             formatted("trains as %lld ranks would, with the same bits on any number of ranks; a rank computes "
                       "up to %lld of them, %d at a time",
                       (long long)s.logical_ranks, (long long)BatchSplit{s.logical_ranks, ranks}.logical_of(0).count,
                       programs.lanes()));
    if (std::max<int64_t>(ranks, s.logical_ranks) > 1 && norms)
        note("batchnorm",
             s.sync_bn ? "statistics over the global batch (--sync-bn)"
                       : "statistics of each rank's own samples; running statistics averaged before an evaluation");
}

}  // namespace convoy
